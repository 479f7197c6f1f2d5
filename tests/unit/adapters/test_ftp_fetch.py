"""FTP and FTPS: real and misbehaving servers, the guard, URL grammar."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.ftp.fetch import FtpFetch, FtpLimits
from odfabric.adapters.ftp.url import parse_ftp_url
from odfabric.adapters.http.connections import GuardedConnections
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded, NotFound, OdfError
from odfabric.ports.sources.egress import FetchedFile
from tests.support.certificates import TestAuthority
from tests.support.servers.ftp import PASSWORD, USERINFO, FtpSite, ftp_site


def source(
    *, allow: tuple[str, ...] = ("127.0.0.0/8",), context: ssl.SSLContext | None = None, **limits: float
) -> FtpFetch:
    connections = GuardedConnections(ports=[21, 990], allow=allow, resolver=lambda _: ["127.0.0.1"])
    given = FtpLimits(**limits)  # type: ignore[arg-type]
    return FtpFetch(connections, given, context or ssl.create_default_context())


def fetch(ftp: FtpFetch, url: str, into: Path, etag: str | None = None) -> FetchedFile:
    return ftp.fetch(url, headers=[], etag=etag, last_modified=None, into=into)


@pytest.fixture(scope="module")
def site() -> Iterator[FtpSite]:
    with ftp_site() as site:
        yield site


def test_a_file_is_fetched_once_until_time_or_size_change(site: FtpSite, tmp_path: Path) -> None:
    ftp, url = source(), site.url("/days/a%20b.csv")
    site.put("/days/a b.csv", b"a,b\r\n1,2\n\0\xff")
    first = fetch(ftp, url, tmp_path / "1")
    assert (tmp_path / "1").read_bytes() == b"a,b\r\n1,2\n\0\xff"
    assert (first.status, first.size, first.etag) == (200, 11, "20231114221320-11")
    assert fetch(ftp, url, tmp_path / "2", first.etag).status == 304
    assert not (tmp_path / "2").exists()
    site.put("/days/a b.csv", b"a,b\r\n1,2\n\0\xff", modified_s=1_700_000_001)
    later = fetch(ftp, url, tmp_path / "3", first.etag)
    assert (later.status, later.etag) == (200, "20231114221321-11")
    site.put("/days/a b.csv", b"longer than before", modified_s=1_700_000_001)
    assert fetch(ftp, url, tmp_path / "4", later.etag).status == 200


@pytest.mark.parametrize("unknown", [("MDTM",), ("MDTM", "SIZE")])
def test_a_server_without_times_gives_no_validator(unknown: tuple[str, ...], tmp_path: Path) -> None:
    with ftp_site(unknown=unknown) as site:
        site.put("/a", b"rows")
        for name in ("1", "2"):
            fetched = fetch(source(), site.url("/a"), tmp_path / name)
            assert (fetched.status, fetched.etag, (tmp_path / name).read_bytes()) == (200, None, b"rows")


def test_users_log_in_and_wrong_passwords_are_not_shown(site: FtpSite, tmp_path: Path) -> None:
    site.put("/a", b"rows")
    assert fetch(source(), site.url("/a", userinfo=USERINFO), tmp_path / "1").status == 200
    with pytest.raises(AccessDenied) as caught:
        fetch(source(), site.url("/a", userinfo="reader:guessed-word"), tmp_path / "2")
    assert "guessed-word" not in str(caught.value)


def test_what_is_not_there_is_not_found_and_folders_are_refused(site: FtpSite, tmp_path: Path) -> None:
    site.put("/folder/a", b"rows")
    with pytest.raises(NotFound):
        fetch(source(), site.url("/nothing"), tmp_path / "1")
    for path in ("/folder", "/folder/", "/"):
        with pytest.raises((NotFound, InvalidRequest)):
            fetch(source(), site.url(path), tmp_path / "1")
    assert not (tmp_path / "1").exists()


def test_the_size_limit_holds_to_the_byte(site: FtpSite, tmp_path: Path) -> None:
    site.put("/fits", b"x" * 100_000)
    site.put("/over", b"x" * 100_001)
    assert fetch(source(source_bytes_max=100_000), site.url("/fits"), tmp_path / "1").size == 100_000
    with pytest.raises(LimitExceeded) as caught:
        fetch(source(source_bytes_max=100_000), site.url("/over"), tmp_path / "2")
    assert caught.value.limit == "source_bytes_max"
    assert not (tmp_path / "2").exists()


def test_ftps_begins_by_auth_and_encrypts_data(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    authority.server_context("localhost")
    with ftp_site(certificate=tmp_path / "localhost.pem") as site:
        site.put("/a", b"x" * 1_000_000)
        ftp = source(context=authority.client_context())
        assert fetch(ftp, site.url("/a", userinfo=USERINFO), tmp_path / "1").size == 1_000_000
        with pytest.raises(Determinate, match="TLS"):
            fetch(source(), site.url("/a"), tmp_path / "2")
        with pytest.raises(OdfError) as caught:  # this server lets nobody in without TLS
            fetch(source(), site.url("/a", userinfo=USERINFO).replace("ftps:", "ftp:"), tmp_path / "3")
        assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/a", "ftp://[::1]/a", "ftps://10.0.0.1/a", "ftp://inner/a", "ftp://0x7f.1/a"]
)
def test_places_that_the_guard_refuses_are_never_connected_to(url: str, tmp_path: Path) -> None:
    with pytest.raises((AccessDenied, InvalidRequest)):
        fetch(source(allow=()), url, tmp_path / "1")


def test_ports_of_other_services_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="port 25"):
        fetch(source(allow=()), "ftp://8.8.8.8:25/a", tmp_path / "1")


def test_there_are_no_headers(site: FtpSite, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no headers"):
        source().fetch(site.url("/a"), headers=[("X", "y")], etag=None, last_modified=None, into=tmp_path / "1")


@contextmanager
def misbehaving(answer: Callable[[str, int], str]) -> Iterator[str]:
    """A server that answers commands by `answer(command, data port)`.

    The data port serves 10 bytes to one who connects.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as data:
        data.settimeout(5)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", newline="", encoding="latin-1") as lines:
                said = answer("", data.getsockname()[1])
                while said:
                    lines.write(said + "\r\n")
                    lines.flush()
                    try:
                        command = lines.readline().strip()
                    except ConnectionResetError:
                        return
                    if not command:
                        return
                    said = answer(command, data.getsockname()[1])
                    if command.startswith("RETR") and said.startswith("150"):
                        try:
                            sent, _ = data.accept()
                        except TimeoutError:
                            return
                        with sent:
                            sent.sendall(b"0123456789")
                        said = f"{said}\r\n226 done"

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"ftp://127.0.0.1:{listener.getsockname()[1]}/a"
        finally:
            listener.close()
            thread.join(10)


USUAL = {"": "220 hi", "USER": "331 word?", "PASS": "230 in", "TYPE": "200 binary", "MDTM": "500 no", "SIZE": "213 10"}


def usual(changes: dict[str, str]) -> Callable[[str, int], str]:
    def answer(command: str, port: int) -> str:
        word = command.split(" ")[0]
        known = {**USUAL, "PASV": "227 (127,0,0,1,{high},{low})", "RETR": "150 here", "QUIT": "221 bye", **changes}
        return known[word].format(high=port // 256, low=port % 256)

    return answer


def test_data_comes_from_the_control_connections_address_whatever_the_server_names(tmp_path: Path) -> None:
    with misbehaving(usual({"PASV": "227 (169,254,169,254,{high},{low})"})) as url:
        assert fetch(source(), url, tmp_path / "1").size == 10


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"": "421 busy"}, Determinate),
        ({"": "not ftp at all"}, Determinate),
        ({"": "220-" + "x" * 5000}, Determinate),
        ({"PASS": "530 you again"}, AccessDenied),
        ({"USER": "500 what"}, InvalidRequest),
        ({"PASV": "227 (127,0,0,1,0,22)"}, Determinate),
        ({"PASV": "227 nonsense"}, Determinate),
        ({"PASV": "502 no"}, InvalidRequest),
        ({"RETR": "550 gone"}, NotFound),
        ({"RETR": "450 in use"}, Determinate),
        ({"SIZE": "213 11"}, Determinate),
        ({"SIZE": "213 many"}, None),
        ({"MDTM": "213 yesterday"}, None),
        ({"QUIT": ""}, None),
    ],
)
def test_servers_that_misbehave(changes: dict[str, str], error: type[OdfError] | None, tmp_path: Path) -> None:
    with misbehaving(usual(changes)) as url:
        if error is None:
            assert fetch(source(answer_s_max=2), url, tmp_path / "1").size == 10
        else:
            with pytest.raises(OdfError) as caught:
                fetch(source(answer_s_max=2), url, tmp_path / "1")
            assert type(caught.value) is error
            assert not (tmp_path / "1").exists()


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    times = iter(["213 20260101000000", "213 20260101000001"])
    plain = usual({})
    with (
        misbehaving(lambda command, port: next(times) if command.startswith("MDTM") else plain(command, port)) as url,
        pytest.raises(Determinate, match="changed while it was read"),
    ):
        fetch(source(), url, tmp_path / "1")
    assert not (tmp_path / "1").exists()


def test_the_session_ends_at_its_deadline_however_often_a_byte_comes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                while not ended.wait(0.05):
                    try:
                        connection.sendall(b"2")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(Determinate, match="too long"):
            fetch(source(total_s_max=0.5), f"ftp://127.0.0.1:{listener.getsockname()[1]}/a", tmp_path / "1")
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "ftp://host/",
        "ftp:///a",
        "ftp://host/a?b",
        "ftp://host/a#b",
        "ftp://host/a;type=a",
        "ftp://host:0/a",
        "ftp://host:99999/a",
        "ftp://a@b@host/x",
        "ftp://host/a%0d%0aDELE%20b",
        "ftp://us%0Aer@host/a",
        "ftp://user:p%00@host/a",
        "ftp://host/\u00e4",
        "ftp://host/a b",
        "http://host/a",
        "ftp://" + "h" * 9000 + "/a",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_ftp_url(url)


def test_parts_of_urls() -> None:
    parsed = parse_ftp_url("FTPS://us%40er:p%3A%2F@[2001:DB8::1]/%2Fetc/a;type=i")
    assert (parsed.scheme, parsed.host, parsed.port, parsed.implicit_tls) == ("ftps", "2001:db8::1", 990, True)
    assert (parsed.user, parsed.password, parsed.path) == ("us@er", "p:/", "/etc/a")
    assert parsed.shown == "ftps://[2001:db8::1]:990/%2Fetc/a"
    assert not parse_ftp_url("ftps://host:21/a").implicit_tls
    assert parse_ftp_url("ftp://host/a").port == 21


@given(st.text(max_size=60), st.text(max_size=20))
def test_no_url_carries_a_second_command(path: str, user: str) -> None:
    try:
        parsed = parse_ftp_url(f"ftp://{user}@host/{path}")
    except InvalidRequest:
        return
    assert not set("\r\n\0") & set(parsed.path + parsed.user + parsed.password + parsed.host)
