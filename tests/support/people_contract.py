"""People commands as the operator: the same on a workspace as over HTTP."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from odfabric.cli.app import main

PASSWORD = "correct horse battery staple"

Enrol = Callable[[str], None]
"""Follows a link as its person would."""


WRONG = (
    ("account set", 1, "--display-name"),
    ("account set --email nowhere", 1, "ann@example.org"),
    ("account show no--name", 1, "no--name"),
    ("account suspend nobody", 1, "account not found"),
    ("account suspend local", 1, "admin"),
    ("account delete system --yes", 1, "system"),
    ("account list --kind robot", 2, "robot"),
    ("org create local", 1, "taken"),
    ("org create admin", 1, "admin"),
    ("org members nobody", 1, "organisation not found"),
    ("org add nobody local", 1, "organisation not found"),
    ("org add nobody local --role king", 2, "king"),
    ("token create x --expires soon", 1, "e.g. 30d"),
    ("token create x --scope fly", 2, "fly"),
    ("token create x --kind session", 2, "session"),
    ("token create x --dataset nothing", 1, "dataset not found: nothing"),
    ("token create ''", 1, "name"),
    ("token inspect odf_pat_x", 1, "copy the whole token"),
    ("token revoke 0", 1, "token not found"),
    ("share nothing", 1, "dataset not found"),
    ("share readings local reader", 1, "owns"),
    ("share readings nobody reader", 1, "account not found"),
    ("share readings nobody", 2, "needs a role: reader, contributor"),
    ("share readings nobody king", 2, "king"),
    ("share readings --public --remove ann", 2, "choose one of them"),
    ("share readings ann reader --private", 2, "choose one of them"),
    ("admin invite local", 1, "taken"),
    ("admin invite no--name", 1, "no--name"),
    ("admin invitations --withdraw 0", 1, "invitation not found"),
    ("admin grant system", 1, "system"),
    ("admin limits local --datasets many", 1, "a number, or `default`"),
    ("admin limits local --datasets -1", 1, "a number, or `default`"),
    ("admin audit --since yesterday", 1, "e.g. 24h"),
    ("admin audit --account nobody", 1, "account not found"),
    ("admin explain nothing", 1, "dataset not found"),
    ("admin explain readings nobody", 1, "account not found"),
)
"""Command, exit code, words on standard error."""


class Command:
    """`odf` with the same options in every call."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *options: str) -> None:
        self.capsys = capsys
        self.options = options
        self.err = ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Standard output; the exit code must be `code`."""
        self.capsys.readouterr()
        ended = main([*self.options, *arguments])
        out, self.err = self.capsys.readouterr()
        assert ended == code, (arguments, ended, out, self.err)
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON document."""
        return json.loads(self(*arguments, "-o", "json", code=code))

    def person(self, name: str, enrol: Enrol) -> None:
        """Invite somebody, who comes."""
        enrol(self("admin", "invite", name).strip())


class PeopleCommandsContract:
    """Fixtures: `odf`, the operator's command (dataset `readings`), `enrol` for links."""

    def test_accounts_are_shown_and_changed(self, odf: Command, enrol: Enrol) -> None:
        assert odf.json("account", "show")["name"] == "local"
        odf.person("ann", enrol)
        assert odf.json("account", "show", "ANN")["name"] == "ann"
        changed = odf.json("account", "set", "ann", "--email", "ann@example.org", "--display-name", "Ann A.")
        assert (changed["email"], changed["displayName"], changed["version"]) == ("ann@example.org", "Ann A.", 2)
        assert odf.json("account", "set", "ann", "--email", "")["email"] is None
        assert [each["name"] for each in odf.json("account", "list")] == ["ann", "local", "system"]
        assert "ann" in odf("account", "list", "--kind", "user")
        assert "e-mail" not in odf("account", "show", "ann")
        assert odf.json("account", "delete", "ann", "--yes") == {"name": "ann"}
        odf("account", "show", "ann", code=1)
        assert "account not found: ann" in odf.err

    def test_a_suspended_account_comes_back(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        assert odf("account", "suspend", "ann") == "suspended ann\n"
        assert "suspended" in odf("account", "show", "ann")
        assert odf("account", "resume", "ann") == "resumed ann\n"
        assert odf.json("account", "show", "ann")["suspendedAt"] is None

    def test_organisations_have_members(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        assert odf.json("org", "create", "weather", "--display-name", "Weather")["kind"] == "organisation"
        assert odf("org", "add", "weather", "ann") == "ann is member of weather\n"
        assert odf.json("org", "add", "weather", "ann", "--role", "admin")["role"] == "admin"
        assert [(each["account"]["name"], each["role"]) for each in odf.json("org", "members", "weather")] == [
            ("ann", "admin"),
            ("local", "admin"),
        ]
        assert "Operator" in odf("org", "members", "weather")
        odf("org", "remove", "weather", "ann")
        odf("org", "remove", "weather", "local", code=1)
        assert "admin" in odf.err
        odf("org", "remove", "weather", "ann", code=1)
        assert "member not found" in odf.err

    def test_a_token_is_shown_once_inspected_and_revoked(self, odf: Command) -> None:
        text = odf("token", "create", "ci", "--scope", "push", "--scope", "read", "--dataset", "readings").strip()
        assert text.startswith("odf_pat_")
        assert "may push, read on 1 dataset(s)" in odf.err
        assert text not in odf.err
        found = odf.json("token", "inspect", text)
        assert (found["name"], found["scopes"], found["state"]) == ("ci", ["push", "read"], "valid")
        assert found["datasets"] == [odf.json("show", "readings")["id"]]
        assert f"id {found['id']}" in odf("token", "inspect", text)
        assert found["id"] in [each["id"] for each in odf.json("token", "list")]
        listed = odf("token", "list")
        assert "push,read" in listed
        assert text not in listed
        odf("token", "revoke", found["id"])
        assert odf.json("token", "list") == []
        assert odf.json("token", "inspect", text)["state"] == "revoked"
        odf("token", "revoke", found["id"], code=1)
        assert "token not found" in odf.err

    def test_tokens_expire_as_they_were_told(self, odf: Command) -> None:
        assert odf.json("token", "create", "never", "--expires", "never")["expiresAt"] is None
        assert odf.json("token", "create", "dated", "--expires", "2099-01-31")["expiresAt"] == "2099-01-31T00:00:00Z"
        assert odf.json("token", "create", "usual")["expiresAt"] is not None
        odf("token", "create", "late", "--expires", "2001-01-01", code=1)
        assert "expired already" in odf.err

    def test_an_organisation_has_service_tokens(self, odf: Command) -> None:
        odf("org", "create", "weather")
        made = odf.json("token", "create", "feed", "--kind", "service", "--account", "weather", "--scope", "push")
        assert (made["account"], made["kind"], made["token"][:8]) == ("weather", "service", "odf_svc_")
        assert [each["name"] for each in odf.json("token", "list", "--account", "weather")] == ["feed"]
        assert odf.json("token", "list", "--account", "weather", "--sessions") == []
        odf("token", "create", "feed", "--account", "weather", code=1)
        assert "service" in odf.err

    def test_a_dataset_is_shared(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        assert odf("share", "readings") == "readings is private\n"
        assert odf("share", "readings", "ann", "contributor") == "ann is contributor of readings\n"
        assert odf.json("share", "readings", "ann", "reader")["role"] == "reader"
        assert odf.json("share", "readings", "--public") == {"visibility": "public"}
        shared = odf.json("share", "readings")
        assert shared["visibility"] == "public"
        assert [(each["account"]["name"], each["role"]) for each in shared["collaborators"]] == [("ann", "reader")]
        assert "reader" in odf("share", "readings")
        assert odf("share", "readings", "--private") == "readings is private\n"
        odf("share", "readings", "--remove", "ann")
        assert odf.json("share", "readings")["collaborators"] == []
        odf("share", "readings", "--remove", "ann", code=1)
        assert "collaborator not found" in odf.err

    def test_links_are_listed_and_withdrawn(self, odf: Command, enrol: Enrol) -> None:
        made = odf.json("admin", "invite", "bob", "--email", "bob@example.org", "--admin")
        assert (made["name"], made["isAdmin"], "/setup?code=" in made["url"]) == ("bob", True, True)
        assert made["id"] in odf("admin", "invitations")
        assert odf("admin", "invitations", "--withdraw", made["id"]) == f"withdrew {made['id']}\n"
        assert odf.json("admin", "invitations") == []
        odf.person("ann", enrol)
        again = odf("admin", "reset-password", "ann").strip()
        assert odf.json("admin", "invitations")[0]["account"] == "ann"
        enrol(again)
        odf("admin", "reset-password", "nobody", code=1)
        assert "account not found" in odf.err

    def test_admins_come_and_go(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        assert odf("admin", "grant", "ann") == "ann is an admin of the node\n"
        assert odf.json("account", "show", "ann")["isAdmin"] is True
        assert odf("admin", "revoke", "ann") == "ann is no admin of the node any more\n"
        odf("admin", "revoke", "local", code=1)
        assert "admin" in odf.err

    def test_limits_change_one_by_one(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        assert "the node's settings" in odf("admin", "limits", "ann")
        odf("admin", "limits", "ann", "--datasets", "10", "--queries-at-once", "1")
        changed = odf.json("admin", "limits", "ann", "--datasets", "default", "--pushes-per-minute", "7")
        assert changed == {
            "datasetsMax": None,
            "storedBytesMax": None,
            "pushesPerMinuteMax": 7,
            "queriesAtOnceMax": 1,
        }
        assert odf.json("admin", "limits", "ann") == changed

    def test_the_audit_says_who_did_what(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        odf("share", "readings", "ann", "reader")
        (entry,) = odf.json("admin", "audit", "--since", "2000-01-01", "--kind", "role.granted")
        assert (entry["actor"]["name"], entry["target"], entry["detail"]["role"]) == (
            "local",
            "local/readings",
            "reader",
        )
        shown = odf("admin", "audit", "--since", "2000-01-01", "-n", "2")
        assert shown.count("\n") == 3
        assert "--after" in odf.err
        after = odf.json("admin", "audit", "--since", "2000-01-01", "--after", str(entry["id"] - 1), "-n", "1")
        assert [each["id"] for each in after] == [entry["id"]]
        assert odf.json("admin", "audit", "--since", "2000-01-01", "--account", "local", "--target", "nothing") == []
        assert (
            odf.json("admin", "audit", "--since", "2000-01-01", "--until", "2000-01-02", "--outcome", "refused") == []
        )

    def test_rights_are_explained(self, odf: Command, enrol: Enrol) -> None:
        odf.person("ann", enrol)
        odf("share", "readings", "ann", "contributor")
        explained = odf.json("admin", "explain", "readings", "ann")
        assert (explained["role"], explained["allowed"]) == ("contributor", ["read", "follow", "push"])
        assert "because they were given the role contributor" in odf("admin", "explain", "readings", "ann")
        assert odf("admin", "explain", "local/readings") == "a stranger on local/readings: no role\n  may do nothing\n"

    def test_what_is_wrong_is_told_with_what_to_do(self, odf: Command) -> None:
        for arguments, code, words in WRONG:
            odf(*shlex.split(arguments), code=code)
            assert words in odf.err, arguments
            assert "Traceback" not in odf.err
