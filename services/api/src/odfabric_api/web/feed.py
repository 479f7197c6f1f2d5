"""Feeds of datasets in Atom: what a search finds, newest change first.

Owns the document. Invariant: texts of users become text nodes and attributes by the library alone; characters that XML 1.0 cannot hold are
left out. Nothing but the entries tells when something changed, so a feed shows no more than its reader may read. Source: RFC 4287.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from fastapi import Request

from odfabric.domain.people.dataset_search import Order
from odfabric.model.instant import Instant
from odfabric.usecases.datasets.describe_dataset import DatasetSummary
from odfabric_api.auth import Subject, node_of
from odfabric_api.bodies.search_request import AskedSearch
from odfabric_api.sessions import public_origin
from odfabric_api.web.pages import dataset_path

ENTRIES_MAX = 50
MEDIA_TYPE = "application/atom+xml"
_ATOM = "http://www.w3.org/2005/Atom"
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def found_feed(request: Request, caller: Subject, asked: AskedSearch, *, path: str) -> bytes:
    """The datasets of a search that changed last, as far as the caller may read them.

    Raises InvalidName.
    """
    node = node_of(request)
    narrowed = asked.narrowing(node.ports.clock.now())
    found = node.browsing.search(narrowed, order=Order.NEWEST, limit=ENTRIES_MAX, by=caller)
    told, origin = ", ".join(asked.parameters().values()), public_origin(request)
    title = f"Datasets of {origin.partition('://')[2]}" + (f": {told}" if told else "")
    return atom_feed(found, title=title, origin=origin, path=asked.address(path), page=asked.address("/"))


def atom_feed(found: Sequence[DatasetSummary], *, title: str, origin: str, path: str, page: str) -> bytes:
    """The feed of what was found, newest first.

    `path` and `page` are the addresses of the feed and its page below `origin`.
    """
    feed = ET.Element("feed", xmlns=_ATOM)
    _text(feed, "title", title)
    _text(feed, "id", origin + path)
    _text(feed, "updated", str(found[0].head.system_time if found else Instant(0)))
    ET.SubElement(feed, "link", rel="self", type=MEDIA_TYPE, href=origin + path)
    ET.SubElement(feed, "link", rel="alternate", type="text/html", href=origin + page)
    for each in found:
        _add_entry(feed, each, origin)
    document: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return document


def _add_entry(feed: ET.Element, of: DatasetSummary, origin: str) -> None:
    """An entry for each change: readers show a dataset again when its head moves."""
    entry = ET.SubElement(feed, "entry")
    _text(entry, "title", str(of.entry.alias))
    _text(entry, "id", f"{of.entry.id}#{of.head.hash}")
    _text(entry, "updated", str(of.head.system_time))
    _text(entry, "published", str(of.entry.created_at))
    _text(ET.SubElement(entry, "author"), "name", str(of.entry.alias.account))
    ET.SubElement(entry, "link", rel="alternate", type="text/html", href=origin + dataset_path(of.entry))
    for word in of.keywords:
        ET.SubElement(entry, "category", term=_in_xml(word))
    _text(entry, "summary", of.description or "")


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = _in_xml(text)


def _in_xml(text: str) -> str:
    return _NOT_IN_XML.sub("", text)
