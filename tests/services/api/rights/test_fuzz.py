"""Any client request, valid or not: no server error, no undocumented answer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from odfabric.testing.memory_node import MemoryNode
from odfabric_api.app import application
from tests.services.api.raw import read_answer
from tests.services.api.serving import TOKEN, Served
from tests.support.turns import todays
from tests.usecases.manifests import ROOT

EXAMPLES = int(os.environ.get("ODF_FUZZ_EXAMPLES", "20"))
"""For each operation; more of them in a long run."""
BYTES = [
    *("application/x-ndjson", "application/x-ndgeojson", "application/vnd.apache.parquet", "application/vnd.shp"),
    "application/partial-upload",
]
schemathesis.serializer.alias(BYTES, "application/octet-stream")
CONFIG = SchemathesisConfig(
    projects=ProjectsConfig(
        default=ProjectConfig(generation=GenerationConfig(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    )
)
SCHEMA = schemathesis.openapi.from_dict(application().openapi(), config=CONFIG)
# Making the cases of an operation takes a third of a second, in each process that collects tests.
TODAYS = frozenset(todays([operation.ok().label for operation in SCHEMA.get_all_operations()], parts=4))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module", autouse=True)
def readings(memory: MemoryNode) -> None:
    memory.add(ROOT)


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        found.trust_env = False
        yield found


@SCHEMA.include(lambda context: context.operation.label in TODAYS).parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
def test_no_request_breaks_the_service(served: Served, session: requests.Session, case: Case) -> None:
    case.path_parameters = {**case.path_parameters, **_here(case)} if case.path_parameters else case.path_parameters
    headers = {"authorization": f"Bearer {TOKEN}", "prefer": "respond-async"}
    case.call_and_validate(base_url=served.url, session=session, headers=headers, checks=CHECKS)


def _here(case: Case) -> dict[str, str]:
    """Half of the time the dataset that exists, so that more than names is tried."""
    if "dataset" in (case.path_parameters or {}) and len(str(case.path_parameters)) % 2:
        return {"account": "local", "dataset": "readings"}
    return {}


@hypothesis.given(
    st.binary(min_size=1, max_size=300), st.sampled_from([b"", b"\r\n", b"\r\n\r\n", b" HTTP/1.1\r\nHost: a\r\n\r\n"])
)
@hypothesis.settings(max_examples=5 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_bytes_break_the_server(served: Served, start: bytes, end: bytes) -> None:
    """Raw bytes: the answer is a refusal, or there is none because more is awaited."""
    with served.connect() as connection:
        connection.sendall(b"GET /" + start + end + b"\n")
        answer = read_answer(connection)
    assert 400 <= answer.status < 500
