"""Which URLs are read, and which places may be reached."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.http.addresses import IpAddress, IpNetwork, why_not_public
from odfabric.adapters.http.guard import EgressGuard, system_resolver
from odfabric.adapters.http.url import HttpUrl, parse_http_url
from odfabric.errors import AccessDenied, Determinate, InvalidRequest

# The registries of IANA (special-purpose addresses, multicast), copied apart from the code's own table.
REGISTERED = [
    *("0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32"),
    *("192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
    *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32"),
    *("224.0.0.0/4", "232.0.0.0/8", "239.0.0.0/8"),
    *("::1/128", "::/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64"),
    *("2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32"),
    *("2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16"),
    *("2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/96"),
]
METADATA_SERVICES = ["169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"]
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0"]
PUBLIC += ["223.255.255.255", "192.0.1.0", "198.17.255.255", "11.0.0.0", "2606:4700::1111", "2a00:1450::", "2001:200::"]


def addresses_of(network: IpNetwork) -> st.SearchStrategy[IpAddress]:
    first, last = int(network.network_address), int(network.broadcast_address)
    make = ipaddress.IPv4Address if isinstance(network, IPv4Network) else ipaddress.IPv6Address
    inside = st.one_of(st.just(first), st.just(last), st.integers(first, last))
    return inside.map(make)


registered = st.sampled_from(REGISTERED).flatmap(lambda text: addresses_of(ip_network(text)))
registered_4 = st.sampled_from([text for text in REGISTERED if ":" not in text]).flatmap(
    lambda text: addresses_of(IPv4Network(text))
)


@pytest.fixture(scope="module")
def guard() -> Iterator[EgressGuard]:
    guard = EgressGuard(ports=[80, 443], allow=[], resolver=lambda host: names[host])
    yield guard
    guard.close()


names: dict[str, Sequence[str]] = {}
"""What the resolver of `guard` says."""


@given(registered)
def test_no_registered_address_is_public(address: IpAddress) -> None:
    assert why_not_public(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_what_the_standard_library_calls_private_is_not_public(address: IPv4Address) -> None:
    # Another table by other people: they may allow less or more, but never may we allow what they call private.
    assert address.is_global or why_not_public(address)


@given(addresses_of(IPv6Network("::/0")))
def test_outside_of_global_unicast_nothing_is_public(address: IpAddress) -> None:
    if int(address) >> 125 != 1:
        assert why_not_public(address)


@pytest.mark.parametrize("text", METADATA_SERVICES)
def test_metadata_services_of_clouds_are_not_public(text: str) -> None:
    assert why_not_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_ordinary_addresses_are_public(guard: EgressGuard, text: str) -> None:
    assert why_not_public(ip_address(text)) is None
    names["public.example"] = [text]
    assert guard.addresses("public.example", 443, seconds_max=5) == [ip_address(text)]


@given(registered)
def test_registered_addresses_are_refused_as_literals(guard: EgressGuard, address: IpAddress) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)
    url = parse_http_url(f"http://{host}/")
    with pytest.raises(AccessDenied):
        guard.check(url)
    with pytest.raises(AccessDenied):
        guard.addresses(url.host, url.port, seconds_max=5)


@given(registered, st.sampled_from(PUBLIC), st.booleans())
def test_a_name_is_refused_if_any_of_its_addresses_is(
    guard: EgressGuard, address: IpAddress, public: str, first: bool
) -> None:
    names["mixed.example"] = [str(address), public] if first else [public, str(address)]
    with pytest.raises(AccessDenied) as refused:
        guard.addresses("mixed.example", 80, seconds_max=5)
    assert str(address) not in str(refused.value)  # what a name means inside is not reported


def spellings_4(address: IPv4Address) -> list[str]:
    """How inet_aton, browsers and others also write an IPv4 address."""
    number = int(address)
    a, b, c, d = address.packed
    return [
        f"{number}",
        f"0{number:o}",
        f"0x{number:x}",
        f"0X{number:X}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0x{a:02X}.{b}.0{c:o}.{d}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"{a}.{b}.{c}.{d}.",
        f"{a}.{b}.{c}.{d}.0x",
        f"{number + 2**32}",
        f"00000000{a:o}.{b}.{c}.{d}",
    ]


def spellings_6(address: IPv4Address) -> list[str]:
    """IPv6 forms that carry the address."""
    text, digits = str(address), f"{int(address) >> 16:x}:{int(address) & 0xFFFF:x}"
    prefixes = ["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "::ffff:0:{}", "2002:{}::", "0:0:0:0:0:ffff:{}"]
    return [f"[{prefix.format(form)}]" for prefix in prefixes for form in (text, digits) if "2002" not in prefix] + [
        f"[2002:{digits}::1]",
        f"[2001:0:{digits}::1]",
        f"[fe80::5efe:{digits}]",
    ]


@given(registered_4)
def test_other_spellings_of_an_address_are_refused(guard: EgressGuard, address: IPv4Address) -> None:
    for host in spellings_4(address) + spellings_6(address):
        if host == f"{address}":
            continue  # three digits each is how some are written anyway
        with pytest.raises((AccessDenied, InvalidRequest)):
            guard.check(parse_http_url(f"http://{host}/"))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_spellings_that_the_system_takes_for_numbers_never_get_that_far(address: IPv4Address) -> None:
    for host in spellings_4(address):
        if host != str(address):
            with pytest.raises(InvalidRequest):
                parse_http_url(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http:",
        "http://",
        "http:///path",
        "//host/path",
        "host/path",
        "ftp://host/",
        "file:///etc/passwd",
        "gopher://host/",
        "javascript:alert(1)",
        "jar:http://host/!/x",
        "http+unix://host/",
        "http://user@host/",
        "http://user:secret@host/",
        "http://:@host/",
        "http://host@127.0.0.1/",
        "http://a b/",
        "http://host\\@evil/",
        "http://host\r\nX: y/",
        "http://host/\r\nX: y",
        "http://host/\x00",
        "\thttp://host/",
        "http://host/ ",
        "ht\ntp://host/",
        "http://ho\tst/",
        "http://[::1/",
        "http://::1/",
        "http://[::1]evil/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[127.0.0.1]/",
        "http://host:0/",
        "http://host:65536/",
        "http://host:-1/",
        "http://host:８０/",
        "http://host:80:80/",
        "http://host..example/",
        "http://.example/",
        "http://-a.example/",
        "http://%6c%6fcalhost/",
        "http://ⓛocalhost/",
        "http://①②⑦.⓪.⓪.①/",
        "http://localhost。example/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 127 + "example/",
        "http://host/" + "x" * 9000,
        "http://host/\ud800",
    ],
)
def test_urls_that_can_be_read_in_two_ways_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_http_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://user@host/", "http://user:secret@host/", "https://:@host/", "http://@host/"])
def test_credentials_in_a_url_are_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(InvalidRequest, match="send them as a header"):
        parse_http_url(url)


@pytest.mark.parametrize(
    ("text", "host", "port", "target", "host_header"),
    [
        ("http://Example.COM", "example.com", 80, "/", "example.com"),
        ("HTTPS://example.com:443?a=b", "example.com", 443, "/?a=b", "example.com"),
        ("http://example.com:/x#y?z", "example.com", 80, "/x", "example.com"),
        ("https://data.example:8443/a/../b", "data.example", 8443, "/a/../b", "data.example:8443"),
        ("http://[2606:4700:0::1111]:8080/", "2606:4700::1111", 8080, "/", "[2606:4700::1111]:8080"),
        ("http://1.1.1.1/", "1.1.1.1", 80, "/", "1.1.1.1"),
        ("http://a_b.example/données 1.csv?q=é&x=%20", "a_b.example", 80, "/donn%C3%A9es%201.csv?q=%C3%A9&x=%20", None),
        ("http://3com.example/a@b:c", "3com.example", 80, "/a@b:c", None),
        ("http://xn--bcher-kva.example./", "xn--bcher-kva.example.", 80, "/", None),
    ],
)
def test_ordinary_urls_are_read(text: str, host: str, port: int, target: str, host_header: str | None) -> None:
    url = parse_http_url(text)
    assert (url.host, url.port, url.target) == (host, port, target)
    assert host_header is None or url.host_header == host_header
    assert parse_http_url(str(url)) == url


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://", "http://a.example", "http://[", "http://1."]))
def test_any_text_is_a_url_or_an_error(text: str, start: str) -> None:
    try:
        url = parse_http_url(start + text)
    except InvalidRequest:
        return
    assert parse_http_url(str(url)) == url
    assert url.host.isascii()
    assert url.target.isascii()
    assert not set(url.target) & set(" \r\n\t\0")


@given(st.lists(st.sampled_from([*"0127.xXaAfF_-", "255", "127", "0x7f", "017"]), min_size=1, max_size=12).map("".join))
def test_hosts_that_the_system_takes_for_numbers_are_addresses_or_refused(host: str) -> None:
    try:
        url = parse_http_url(f"http://{host}/")
    except InvalidRequest:
        return
    try:
        packed = socket.inet_aton(url.host)
    except OSError:
        return  # a name
    assert url.host == str(IPv4Address(packed))


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("/b?x=1", "http://a.example:8080/b?x=1"),
        ("b", "http://a.example:8080/dir/b"),
        ("//b.example/c", "http://b.example/c"),
        ("https://b.example", "https://b.example/"),
        ("?q", "http://a.example:8080/dir/file?q"),
        ("", "http://a.example:8080/dir/file"),
    ],
)
def test_locations_are_read_relative_to_the_url(location: str, text: str) -> None:
    base = parse_http_url("http://a.example:8080/dir/file")
    assert str(base.join(location)) == text


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://u:p@b/", "http:\\\\b", "\x00", "http://[", "//2130706433/"]
)
def test_bad_locations_are_refused(location: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_http_url("http://a.example/").join(location)


def test_messages_do_not_show_the_query() -> None:
    assert parse_http_url("https://a.example/data?key=secret").shown == "https://a.example/data"


@pytest.mark.parametrize("port", [1, 22, 25, 81, 5432, 6379, 8000, 9200, 65535])
def test_other_ports_are_refused(guard: EgressGuard, port: int) -> None:
    names["public.example"] = ["8.8.8.8"]
    for host in ("public.example", "8.8.8.8"):
        with pytest.raises(AccessDenied):
            guard.check(HttpUrl(scheme="http", host=host, port=port, target="/"))
        with pytest.raises(AccessDenied):
            guard.addresses(host, port, seconds_max=5)


def reaches(allow: Sequence[str], host: str, port: int, answers: Sequence[str]) -> bool:
    guard = EgressGuard(ports=[80], allow=allow, resolver=lambda _: answers)
    try:
        guard.check(HttpUrl(scheme="http", host=host, port=port, target="/"))
        guard.addresses(host, port, seconds_max=5)
    except AccessDenied:
        return False
    finally:
        guard.close()
    return True


@pytest.mark.parametrize(
    ("allow", "host", "port", "answers", "expected"),
    [
        (["127.0.0.1:5000"], "127.0.0.1", 5000, [], True),
        (["127.0.0.1:5000"], "127.0.0.1", 5001, [], False),
        (["127.0.0.1:5000"], "127.0.0.2", 5000, [], False),
        (["127.0.0.1:5000"], "inner.example", 5000, ["127.0.0.1"], False),
        (["[::1]:5000"], "::1", 5000, [], True),
        (["Inner.example:5000"], "inner.example", 5000, ["10.0.0.1"], True),
        (["inner.example:5000"], "inner.example", 80, ["10.0.0.1"], False),
        (["inner.example:5000"], "other.example", 80, ["8.8.8.8"], True),
        (["10.0.0.0/8"], "inner.example", 5000, ["10.0.0.1"], True),
        (["10.0.0.0/8"], "inner.example", 80, ["10.0.0.1", "192.168.0.1"], False),
        (["10.0.0.0/8"], "other.example", 5000, ["8.8.8.8"], False),
        (["10.0.0.0/8"], "other.example", 80, ["8.8.8.8"], True),
        (["10.0.0.0/8"], "::ffff:a00:1", 80, [], False),
        (["::1"], "::1", 9999, [], True),
        ([], "127.0.0.1", 80, [], False),
    ],
)
def test_exceptions_open_what_they_name_and_no_more(
    allow: Sequence[str], host: str, port: int, answers: Sequence[str], expected: bool
) -> None:
    assert reaches(allow, host, port, answers) is expected


@pytest.mark.parametrize(
    "entry", ["", "localhost", "*", "10.0.0.0/33", "host:", "host:x", ":80", "http://host:80", "10.0.0.1/8"]
)
def test_exceptions_that_cannot_be_read_are_named(entry: str) -> None:
    with pytest.raises(InvalidRequest, match="egress_allow"):
        EgressGuard(ports=[80], allow=[entry])


def test_lookups_that_fail_or_hang_are_failures() -> None:
    over = threading.Event()

    def slow(host: str) -> Sequence[str]:
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if host == "slow.example":
            over.wait(20.0)
        return []

    guard = EgressGuard(ports=[80], allow=[], resolver=slow)
    started = time.monotonic()
    for host in ("unknown.example", "slow.example", "empty.example"):
        with pytest.raises(Determinate):
            guard.addresses(host, 80, seconds_max=0.2)
    assert time.monotonic() - started < 5.0
    over.set()
    guard.close()


def test_the_systems_resolver_gives_each_address_once() -> None:
    found = system_resolver("localhost")
    assert "127.0.0.1" in found
    assert len(found) == len(set(found))
    assert not reaches([], "localhost", 80, found)


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), False),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"), False),
        (UnicodeError("label too long"), True),
        (OSError("no descriptors"), False),
    ],
    ids=["no-such-name", "try-again", "server-fails", "impossible", "ours"],
)
def test_a_name_that_nobody_has_is_another_failure_than_no_answer(error: Exception, lasting: bool) -> None:
    def resolver(_: str) -> list[str]:
        raise error

    guard = EgressGuard(ports=[80], allow=[], resolver=resolver)
    with pytest.raises(Determinate, match="host data") as failed:
        guard.addresses("data.example", 80, seconds_max=5.0)
    assert (failed.value.lasting, failed.value.stage) == (lasting, "dns")
    assert ("spelling" in str(failed.value.hint)) is lasting
    guard.close()
