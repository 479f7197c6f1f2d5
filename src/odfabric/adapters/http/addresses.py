"""Which internet addresses are public unicast, and why others are not.

Owns one table: the special-purpose registries of IANA (IPv4 and IPv6, as of October 2025) and multicast. Invariant: every
block of the registries is refused, also those that are globally reachable, because none of them is a place where data is
published; of IPv6 only 2000::/3 is open at all. Translated forms (mapped, 6to4, Teredo, NAT64) are refused whole, so that
no second notation of an address has to be unwrapped. Source: RFC 6890 and the registries; docs/threat-model.md.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")

_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private use"),
    ("100.64.0.0/10", "shared address space of carriers"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private use"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112 service"),
    ("192.52.193.0/24", "automatic multicast tunneling"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private use"),
    ("192.175.48.0/24", "AS112 service"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    # Public by allocation, but answered by the host below a virtual machine with that machine's own secrets.
    ("168.63.129.16/32", "control address of a cloud host"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "mapped IPv4"),
    ("64:ff9b::/96", "IPv4 by translation"),
    ("64:ff9b:1::/48", "IPv4 by translation"),
    ("100::/64", "discard only"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112 service"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_SPECIAL_NETWORKS: tuple[tuple[IpNetwork, str], ...] = tuple((ip_network(text), why) for text, why in _SPECIAL)


def why_not_public(address: IpAddress) -> str | None:
    """Why an address is not public unicast, in words for people; None if it is."""
    for network, why in _SPECIAL_NETWORKS:
        if address in network:
            return why
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST_6:
        return "not global unicast"
    return None
