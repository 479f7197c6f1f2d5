"""Variables and secrets: who sets them, templates, and no leaks.

Where templates find them, and where secrets never appear.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from odfabric.adapters.memory.sources.egress import MemoryPage
from odfabric.domain.sources.source_templates import Value
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound, OdfError
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring.sources.polling import variable_verbs
from tests.usecases.manifests import POLLED, ROOT

SECRET = "tøken/with + parts"
FETCH = """
      kind: Url
      url: https://data.example/${{ env.FILE || 'rows' }}.ndjson?key=${{ env.KEY || 'none' }}
      headers: [{name: Authorization, value: 'Bearer ${{ env.TOKEN }}'}]"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(POLLED.replace("{kind: FilesGlob, path: 'arrivals/*.ndjson'}", FETCH))


def put(memory: MemoryNode, entry: CatalogEntry, name: str, value: str, *, secret: bool = False) -> None:
    memory.node.variables.set(entry, name, value, secret=secret, by=memory.node.operator)


def pulled(memory: MemoryNode, entry: CatalogEntry) -> Job:
    return memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))


def test_templates_take_the_dataset_s_variables(memory: MemoryNode, entry: CatalogEntry) -> None:
    put(memory, entry, "TOKEN", SECRET, secret=True)
    put(memory, entry, "FILE", "today")
    url = "https://data.example/today.ndjson?key=none"
    row = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": "A"})
    memory.http.pages[url] = MemoryPage(body=row.encode())
    assert pulled(memory, entry).status is JobStatus.SUCCEEDED
    assert memory.http.requests[0].headers == (("Authorization", f"Bearer {SECRET}"),)


def test_a_variable_that_is_missing_is_named_with_the_way_to_set_it(memory: MemoryNode, entry: CatalogEntry) -> None:
    problem = json.loads(pulled(memory, entry).error or "")
    assert (problem["code"], problem["message"]) == ("not-found", "variable not found: TOKEN")
    assert problem["field"] == "fetch.headers[0].value"
    assert "odf variables set" in problem["hint"]
    assert memory.http.requests == []


@pytest.mark.parametrize("status", [401, 404, 418, 503])
def test_a_secret_is_in_no_error_answer_or_log(
    memory: MemoryNode, entry: CatalogEntry, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    put(memory, entry, "TOKEN", SECRET, secret=True)
    put(memory, entry, "KEY", SECRET, secret=True)
    put(memory, entry, "FILE", SECRET, secret=True)
    url = f"https://data.example/{SECRET}.ndjson?key={SECRET}"
    memory.http.pages[url] = MemoryPage(status=status)
    failed = pulled(memory, entry)
    assert failed.status is JobStatus.FAILED
    memory.http.pages[url] = MemoryPage(body=f'{{"city": "{SECRET}", "event_time": "{SECRET}"}}\n'.encode(), etag='"1"')
    broken = pulled(memory, entry)
    memory.http.pages[url] = MemoryPage(body=b"", etag='"2"')
    pulled(memory, entry)
    done = pulled(memory, entry)
    assert (broken.status, done.status) == (JobStatus.FAILED, JobStatus.SUCCEEDED)
    shown = [repr(job) for job in (failed, broken, done)] + [caplog.text]
    shown += [str(memory.node.variables.listed(entry, by=memory.node.operator))]
    shown += [repr(link) for link in memory.node.datasets.log(entry, limit=9)]
    shown += [str(each.stored) for each in memory.store.audit_log]
    for text in shown:
        assert SECRET not in text
        assert "t%C3%B8ken" not in text
    assert "***" in str(failed.error)


def test_a_process_variable_counts_only_where_the_operator_names_it(
    memory: MemoryNode, entry: CatalogEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of the process")
    monkeypatch.setenv("HOME_TOKEN", "another")
    ports, access = memory.node.ports, memory.node.access
    unnamed = variable_verbs(ports, memory.settings, access=access).lookup(entry.id)
    assert unnamed("TOKEN") is None
    shared = memory.settings.model_copy(update={"source_environment": ("TOKEN", "NOT_THERE")})
    named = variable_verbs(ports, shared, access=access).lookup(entry.id)
    assert named("TOKEN") == Value("of the process", secret=True)
    assert (named("HOME_TOKEN"), named("NOT_THERE")) == (None, None)
    put(memory, entry, "TOKEN", "of the dataset")
    assert named("TOKEN") == Value("of the dataset")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("", "x", False),
        ("1A", "x", False),
        ("A-B", "x", False),
        ("A" * 101, "x", False),
        ("ä", "x", False),
        ("A", "two\nlines", False),
        ("A", "abc", True),
    ],
)
def test_what_no_template_or_header_can_have_is_refused(
    memory: MemoryNode, entry: CatalogEntry, name: str, value: str, secret: bool
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        put(memory, entry, name, value, secret=secret)
    assert refused.value.hint
    assert list(memory.node.variables.listed(entry, by=memory.node.operator)) == []


def test_values_and_their_number_are_limited(memory: MemoryNode, entry: CatalogEntry) -> None:
    longest = memory.settings.variable_bytes_max
    put(memory, entry, "A", "x" * longest)
    with pytest.raises(LimitExceeded, match="too long"):
        put(memory, entry, "A", "x" * longest + "y")
    for number in range(memory.settings.variables_per_dataset_max - 1):
        put(memory, entry, f"V{number}", "")
    with pytest.raises(LimitExceeded, match="too many"):
        put(memory, entry, "ONE_MORE", "")


def test_changes_are_audited_without_values_and_go_with_the_dataset(memory: MemoryNode, entry: CatalogEntry) -> None:
    put(memory, entry, "TOKEN", SECRET, secret=True)
    memory.node.variables.remove(entry, "TOKEN", by=memory.node.operator)
    with pytest.raises(NotFound):
        memory.node.variables.remove(entry, "TOKEN", by=memory.node.operator)
    details = [each.stored.entry.detail for each in memory.store.audit_log]
    assert [detail for detail in details if "variable" in detail] == [
        {"variable": "TOKEN", "change": "secret set"},
        {"variable": "TOKEN", "change": "variable removed"},
    ]
    put(memory, entry, "TOKEN", "again")
    memory.node.datasets.delete(entry)
    assert memory.store.variables == {}


def test_who_may_not_change_the_source_neither_sees_nor_sets_any(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    stranger = memory.node.access.subject_later("system")
    for act in (
        lambda: memory.node.variables.listed(entry, by=stranger),
        lambda: memory.node.variables.set(entry, "A", "x", secret=False, by=stranger),
        lambda: memory.node.variables.remove(entry, "A", by=stranger),
    ):
        with pytest.raises(OdfError) as refused:
            act()
        assert refused.value.code in ("access-denied", "not-found")
