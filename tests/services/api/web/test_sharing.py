"""The screen on which a dataset is shared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, browsing, text_of
from tests.services.api.people import People

PATH = "/ann/cities/-/sharing"


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities")
    people.grant(cities, "mats", DatasetRole.MAINTAINER)
    people.grant(cities, "edda", DatasetRole.EDITOR)
    with browsing(people) as found:
        yield found


def test_roles_are_given_changed_and_taken(browsers: Browsers) -> None:
    with browsers.open("ann") as ann, browsers.open("rita") as rita:
        assert rita.get("/ann/cities").status_code == 404
        done = ann.post(f"{PATH}/collaborators", data={"name": "rita", "role": "reader", "version": "0"})
        assert (done.status_code, done.headers["location"]) == (303, f"{PATH}?done=role")
        assert "The collaborators are changed." in text_of(ann.get(done.headers["location"]))
        assert rita.get("/ann/cities").status_code == 200
        change = {"name": "rita", "role": "contributor", "seen": "reader", "version": "1"}
        assert ann.post(f"{PATH}/collaborators", data=change).status_code == 303
        assert 'aria-label="Role of rita"' in ann.get(PATH).text
        take = {"name": "rita", "role": "none", "seen": "contributor", "version": "2"}
        assert ann.post(f"{PATH}/collaborators", data=take).status_code == 303
        assert rita.get("/ann/cities").status_code == 404


def test_the_second_of_two_is_told_what_changed(browsers: Browsers) -> None:
    with browsers.open("ann") as ann, browsers.open("mats") as mats:
        given = {"name": "carl", "role": "reader", "version": "0"}
        assert mats.post(f"{PATH}/collaborators", data=given).status_code == 303
        refused = ann.post(f"{PATH}/collaborators", data={**given, "role": "editor"})
        assert (refused.status_code, "was changed meanwhile" in alert_of(refused)) == (409, True)
        assert "carl was no collaborator when you opened the page, and is reader now." in text_of(refused)
        take = {"name": "carl", "role": "none", "seen": "reader", "version": "1"}
        assert ann.post(f"{PATH}/collaborators", data=take).status_code == 303
        change = {"name": "carl", "role": "editor", "seen": "reader", "version": "1"}
        late = mats.post(f"{PATH}/collaborators", data=change)
        assert "carl was reader when you opened the page, and is no collaborator now." in text_of(late)


def test_nobody_gives_more_than_they_have(browsers: Browsers) -> None:
    with browsers.open("mats") as mats:
        for form, status, says in (
            ({"name": "pia", "role": "owner"}, 403, "only who has the role owner"),
            ({"name": "nobody-there", "role": "reader"}, 404, "account not found: nobody-there"),
            ({"name": "pia", "role": "king"}, 400, "not a role on a dataset"),
            ({"name": "ann", "role": "reader"}, 400, "ann owns ann/cities"),
        ):
            refused = mats.post(f"{PATH}/collaborators", data=form)
            assert (refused.status_code, says in alert_of(refused)) == (status, True), form
            assert f'value="{form["name"]}"' in refused.text


def test_visibility_opens_and_closes(browsers: Browsers) -> None:
    with browsers.open("ann") as ann, browsers.open(None) as stranger:
        assert ann.post(f"{PATH}/visibility", data={"visibility": "public"}).status_code == 303
        assert stranger.get("/ann/cities").status_code == 200
        assert stranger.get(PATH).status_code == 303
        done = ann.post(f"{PATH}/visibility", data={"visibility": "private"})
        assert "It is private now." in text_of(ann.get(done.headers["location"]))
        assert stranger.get("/ann/cities").status_code == 404
        assert ann.post(f"{PATH}/visibility", data={"visibility": "x"}).status_code == 400


def test_only_who_may_share_sees_the_screen_and_its_tab(browsers: Browsers) -> None:
    with browsers.open("edda") as edda, browsers.open("mats") as mats, browsers.open("pia") as pia:
        assert PATH in mats.get("/ann/cities").text
        assert PATH not in edda.get("/ann/cities").text
        assert (edda.get(PATH).status_code, pia.get(PATH).status_code) == (403, 404)


def test_whoever_gives_their_own_role_back_is_led_away(browsers: Browsers) -> None:
    with browsers.open("mats") as mats:
        done = mats.post(f"{PATH}/collaborators", data={"name": "mats", "role": "none"})
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert mats.get("/ann/cities").status_code == 404
