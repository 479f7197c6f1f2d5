"""Making a dataset by SQL on a page: inputs from the query, judged first."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.people.account import DatasetRole
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.browsing import Browsers, alert_of, field, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working

ALL = "SELECT * FROM `ann/cities`"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    people.grant(people.add("ann", "cities"), "pia", DatasetRole.READER)
    people.add("ann", "private")
    with serving(people.node) as served, working(people.node):
        yield Browsers(people, served)


@pytest.fixture
def pia(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("pia") as found:
        yield found


def is_there(memory: MemoryNode, name: str) -> bool:
    return memory.node.ports.catalog.by_alias(DatasetAlias(Name("pia"), Name(name))) is not None


def test_check_tells_columns_and_class_and_makes_nothing(site: Browsers, pia: httpx.Client) -> None:
    asked = {"name": "checked", "owner": "pia", "sql": ALL, "action": "check"}
    answer = pia.post("/-/new/sql", data=asked)
    assert answer.status_code == 200
    text = text_of(answer)
    assert "The query is accepted" in text
    assert "linear Row by row" in text
    assert "value BIGINT may be null" in text
    assert "datasetRef: ann/cities" in answer.text
    assert field(answer, "sql").strip() == ALL
    assert not is_there(site.people.memory, "checked")


def test_create_makes_it_and_leads_to_its_first_update(pia: httpx.Client) -> None:
    asked = {"name": "made", "owner": "pia", "visibility": "private", "sql": ALL, "action": "create"}
    page = job_done(pia, pia.post("/-/new/sql", data=asked))
    assert "Update of pia/made done" in text_of(page)
    assert "ann/cities → pia/made" in text_of(pia.get("/pia/made/-/lineage"))


@pytest.mark.parametrize("action", ["check", "create"])
def test_a_query_that_is_refused_is_told_at_its_place_with_what_is_accepted(
    site: Browsers, pia: httpx.Client, action: str
) -> None:
    wrong = "SELECT city FROM `ann/cities`"
    answer = pia.post("/-/new/sql", data={"name": "refused", "owner": "pia", "sql": wrong, "action": action})
    assert answer.status_code == 400
    assert "Line 1, column 1: not SELECT * of an input" in alert_of(answer)
    assert "SELECT * FROM ann/cities" in alert_of(answer)
    assert field(answer, "sql").strip() == wrong
    assert field(answer, "name") == "refused"
    assert not is_there(site.people.memory, "refused")


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"sql": "SELECT * FROM `ann/private`"}, 400, "names no dataset that you may read"),
        ({"sql": "SELECT * FROM `ann/nothing`"}, 400, "names no dataset that you may read"),
        ({"sql": ""}, 400, "names no dataset that you may read"),
        ({"name": "no--name"}, 400, "DatasetName"),
        ({"owner": "ann"}, 403, "pia may not create ann/other"),
        ({"visibility": "secret"}, 400, "public or private"),
    ],
)
def test_refusals_keep_the_form(pia: httpx.Client, given: dict[str, str], status: int, said: str) -> None:
    asked = {"name": "other", "owner": "pia", "sql": ALL, "action": "create", **given}
    answer = pia.post("/-/new/sql", data=asked)
    assert answer.status_code == status
    assert said in alert_of(answer)
    assert field(answer, "sql").strip() == asked["sql"]
