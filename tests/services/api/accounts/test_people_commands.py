"""Commands about people and rights on a node: as operator, and as those let in."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from odfabric.cli.backends.people.credentials import Credentials, Login
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.serving import TOKEN, Served, serving, working
from tests.support.browser import Browser
from tests.support.loopback_http import LoopbackServer, Seen, reply
from tests.support.people_contract import PASSWORD, Command, Enrol, PeopleCommandsContract
from tests.usecases.manifests import ROOT

ANNS = ROOT.replace("name: readings", "name: levels")

WRONG_LOGINS = (
    ("login nowhere", 1, "not a node's address"),
    ("login http://ann:secret@host", 1, "use a token"),
    ("login http://127.0.0.1:9", 3, "is it running?"),
    ("login http://127.0.0.1:9 --check", 1, "not logged in"),
    ("login http://127.0.0.1:9 --check --password", 2, "choose one"),
    ("login http://127.0.0.1:9 --open --password", 2, "choose one"),
    ("login http://127.0.0.1:9 --password --token t", 2, "choose one"),
    ("logout http://127.0.0.1:9", 1, "not logged in"),
    ("whoami ftp://host", 1, "field URL: not a node's address"),
)
"""Command, exit code, words on standard error."""

Say = Callable[..., None]


@pytest.fixture
def node(tmp_path: Path) -> MemoryNode:
    found = MemoryNode(tmp_path / "node")
    found.add(ROOT)
    return found


@pytest.fixture
def at(node: MemoryNode) -> Iterator[Served]:
    with serving(node.node) as found, working(node.node):
        yield found


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "credentials.json"
    monkeypatch.setenv("ODF_CREDENTIALS", str(path))
    monkeypatch.delenv("ODF_TOKEN", raising=False)
    return path


@pytest.fixture
def odf(at: Served, credentials: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "--node", at.url, "--token", TOKEN)


@pytest.fixture
def user(at: Served, credentials: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command of somebody who may be logged in."""
    return Command(capsys, "--node", at.url)


@pytest.fixture
def enrol() -> Enrol:
    def follow(url: str) -> None:
        with closing(Browser()) as browser:
            browser.open(url)
            assert browser.send(password=PASSWORD).status_code == 200

    return follow


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Lines of standard input of the next command."""

    def said(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return said


@pytest.fixture
def ann(odf: Command, user: Command, enrol: Enrol, say: Say) -> Command:
    """The command of ann, who is logged in by password."""
    odf.person("ann", enrol)
    say(PASSWORD)
    user("login", "--password", "--user", "ann")
    return user


class TestOnANode(PeopleCommandsContract):
    pass


def test_names_without_an_account_are_of_whoever_is_logged_in(ann: Command, odf: Command, tmp_path: Path) -> None:
    path = tmp_path / "levels.yaml"
    path.write_text(ANNS)
    assert ann.json("add", "--public", str(path))[0]["alias"] == "ann/levels"
    assert ann.json("show", "levels")["alias"] == "ann/levels"
    assert ann.json("share", "levels")["visibility"] == "public"
    ann("show", "readings", code=1)
    assert "dataset not found: ann/readings" in ann.err
    assert odf.json("show", "readings")["alias"] == "local/readings"
    token = odf.json("token", "create", "as ann", "--account", "ann")["token"]
    given = Command(ann.capsys, "--node", odf.options[1], "--token", token)
    assert given.json("show", "levels")["alias"] == "ann/levels", "a token that is given is asked whose it is"


def test_a_stranger_means_the_first_account(odf: Command, user: Command) -> None:
    odf("share", "readings", "--public")
    assert user.json("show", "readings")["alias"] == "local/readings"
    odf("share", "readings", "--private")
    user("show", "readings", code=1)
    assert f"if it is yours: `odf login {user.options[1]}`" in user.err
    user("token", "list", code=1)
    assert f"`odf login {user.options[1]}` signs you in" in user.err


def test_a_login_by_password_is_kept_checked_and_revoked(ann: Command, credentials: Path, at: Served) -> None:
    assert ann.json("whoami")["accountName"] == "ann"
    assert ann("login", "--check") == f"logged in to {at.url} as ann\n"
    kept = Credentials(credentials).get(at.url)
    assert kept is not None
    assert kept.account == "ann"
    bare = Command(ann.capsys)
    assert bare.json("whoami")["url"] == at.url, "the only login needs no address"
    assert bare.json("logout") == {"url": at.url, "account": "ann", "revoked": True}
    assert Credentials(credentials).all() == {}
    ann("whoami", "--token", kept.token, code=1)
    assert "revoked" in ann.err
    for verb in (["logout"], ["whoami"], ["login", "--check"]):
        bare(*verb, code=1)
        assert "`odf login URL`" in bare.err


def test_a_wrong_password_keeps_nothing(odf: Command, user: Command, enrol: Enrol, say: Say, credentials: Path) -> None:
    odf.person("ann", enrol)
    for name, password in (("ann", "mistaken"), ("nobody", PASSWORD)):
        say(password)
        user("login", "--password", "--user", name, code=1)
        assert "name or password is wrong" in user.err
        assert password not in user.err
    say(PASSWORD)
    user("login", "--password", code=1)
    assert "--user NAME" in user.err
    say()
    user("login", "--password", "--user", "ann", code=1)
    assert "standard input has no line" in user.err
    assert not credentials.exists()


def test_a_token_is_kept_only_if_it_counts(user: Command, say: Say, at: Served, credentials: Path) -> None:
    for wrong, words in (("odf_pat_x", "copy the whole token"), ("x", "this is not an access token")):
        user("login", "--token", wrong, code=1)
        assert words in user.err
    assert not credentials.exists()
    say(TOKEN)
    assert user.json("login", "--token", "-") == {"url": at.url, "account": "local"}
    assert user.json("list")[0]["alias"] == "local/readings"
    assert user.json("logout")["revoked"] is False
    with at.client() as client:
        assert client.get("/accounts/me").status_code == 200, "the operator's token cannot revoke itself"


def test_a_login_that_does_not_count_any_more_can_be_checked_and_forgotten(
    ann: Command, odf: Command, credentials: Path, at: Served
) -> None:
    (token,) = odf.json("token", "list", "--account", "ann")
    odf("token", "revoke", token["id"])
    ann("login", "--check", code=1)
    assert f"`odf login {at.url}` signs you in again" in ann.err
    ann("list", code=1)
    assert f"`odf login {at.url}` signs you in" in ann.err
    assert "did not count any more" in ann("logout")
    assert Credentials(credentials).all() == {}


def test_a_given_token_goes_before_a_login(ann: Command, monkeypatch: pytest.MonkeyPatch, at: Served) -> None:
    assert ann.json("whoami", "--token", TOKEN)["accountName"] == "local"
    monkeypatch.setenv("ODF_TOKEN", TOKEN)
    assert ann.json("whoami")["accountName"] == "local"
    assert ann.json("logout")["account"] == "ann", "what is logged out is the login"
    monkeypatch.delenv("ODF_TOKEN")
    ann("whoami", code=1)


def test_a_token_goes_to_its_own_origin_alone(
    credentials: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A token goes only to its origin, never by redirects or to another port.

    Nor to another scheme or host.
    """
    with LoopbackServer(lambda _: reply(404)).serving() as elsewhere:
        page = json.dumps({"datasets": []}).encode()
        link = {"link": f'<{elsewhere.url("/datasets?after=a%2Fb")}>; rel="next"', "content-type": "application/json"}

        def lead_away(seen: Seen) -> bytes:
            if "after=" in seen.target:
                return reply(302, headers={"location": elsewhere.url("/datasets")})
            return reply(200, page, link)

        with LoopbackServer(lead_away).serving() as home:
            Credentials(credentials).put(home.url("").rstrip("/"), Login(token="secret", account="ann"))
            command = Command(capsys, "--node", home.url())
            command("list", code=1)
            assert elsewhere.url("/datasets") in command.err
            assert [seen.headers.get("authorization") for seen in home.seen] == ["Bearer secret"] * 2
            assert elsewhere.seen == []
            for url in (elsewhere.url(), f"http://localhost:{home.port}/"):
                Command(capsys, "--node", url)("list", "-o", "json", code=1)
            assert all("authorization" not in seen.headers for seen in elsewhere.seen)
            assert all("authorization" not in seen.headers for seen in home.seen[2:])
        Command(capsys, "--node", f"http://ann:pw@127.0.0.1:{elsewhere.port}")("list", code=1)
        assert len(elsewhere.seen) == 1


def test_of_several_logins_one_is_named(
    ann: Command, credentials: Path, capsys: pytest.CaptureFixture[str], at: Served
) -> None:
    Credentials(credentials).put("https://odf.example.org", Login(token="t", account="ann"))
    bare = Command(capsys)
    bare("whoami", code=1)
    assert at.url in bare.err
    assert "https://odf.example.org" in bare.err
    bare("logout", at.url.upper().replace("HTTP", "http") + "/")
    assert set(Credentials(credentials).all()) == {"https://odf.example.org"}


def test_a_login_is_forgotten_without_its_node(credentials: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Credentials(credentials).put("http://127.0.0.1:9", Login(token="t", account="ann"))
    bare = Command(capsys)
    bare("logout", code=3)
    assert set(Credentials(credentials).all()) == {"http://127.0.0.1:9"}
    assert "goes on counting" in bare("logout", "--forget")
    assert Credentials(credentials).all() == {}


@pytest.mark.usefixtures("credentials")
def test_what_is_wrong_with_a_login_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(capsys)
    for arguments, code, words in WRONG_LOGINS:
        command(*shlex.split(arguments), code=code)
        assert words in command.err, arguments
        assert "secret" not in command.err


@pytest.mark.usefixtures("credentials")
def test_an_address_that_is_no_nodes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(lambda _: reply(200, b"<html>")).serving() as page:
        command = Command(capsys)
        command("login", page.url(), code=1)
        assert "does not answer as a node does" in command.err
        command("login", page.url(), "--token", "t", code=1)
        assert "does not answer as a node does" in command.err


def test_what_a_node_tells_drives_neither_the_terminal_nor_the_machine(
    credentials: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only web pages are opened, whatever the node calls the page of its sign-in."""
    opened = tmp_path / "opened"
    monkeypatch.setenv("BROWSER", f"touch {opened} %s")
    started = {
        "device_code": "d",
        "user_code": "BCDF\x1b[31m-GHJK",
        "verification_uri": "file:///etc/passwd",
        "interval": 1,
        "expires_in": 60,
    }

    def respond(seen: Seen) -> bytes:
        if seen.target.endswith("/authorization"):
            return reply(200, json.dumps(started).encode())
        return reply(400, json.dumps({"error": "access_denied"}).encode())

    with LoopbackServer(respond).serving() as node:
        command = Command(capsys)
        command("login", node.url(), "--open", code=1)
    assert "file:///etc/passwd" in command.err
    assert "open the address yourself" in command.err
    assert "BCDF\\x1b[31m-GHJK" in command.err
    assert "the sign-in was denied" in command.err
    assert not opened.exists()
    assert not credentials.exists()


def test_a_node_knows_its_own_address(odf: Command) -> None:
    odf("admin", "invite", "--url", "https://elsewhere.example", code=1)
    assert "ODF_PUBLIC_URL" in odf.err
    assert odf.json("admin", "invitations") == []


@pytest.mark.usefixtures("credentials")
def test_plain_http_over_a_network_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(capsys)
    command("login", "http://odf.invalid:9", code=3)
    assert "odf: warning: http://odf.invalid:9 is not encrypted" in command.err
    command("login", "http://127.0.0.1:9", code=3)
    assert "warning" not in command.err


def test_a_workspace_copies_from_a_node_by_its_login(
    ann: Command, odf: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = odf.options[1]
    monkeypatch.setenv("ODF_EGRESS_ALLOW", json.dumps([url.removeprefix("http://")]))
    monkeypatch.setenv("ODF_EGRESS_PORTS", json.dumps([int(url.rpartition(":")[2])]))
    here = Command(capsys, "--workspace", str(tmp_path / "workspace"))
    here("init")
    here("pull", f"{url}/local/readings", code=1)
    odf("share", "readings", "ann", "reader")
    assert here.json("pull", f"{url}/local/readings")["alias"] == "local/readings"
    assert here.json("pull", "readings")["upToDate"] is True
    ann("logout")
    here("pull", "readings", code=1)
