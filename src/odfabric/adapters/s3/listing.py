"""Keys of a bucket in the order of their texts, whatever order the server has.

Owns the walk, level by level. S3 lists in order of texts; servers that keep folders inside list a folder where its name stands
without the slash, so that "a/b" comes before "a-b". Invariant: keys come in order of their texts from both kinds, with memory for a page
and the names that begin alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Page = tuple[list[str], dict[str, str]]
"""What lies directly below a prefix, folders with their slash, and how to ask for what follows; empty at the end."""


def keys_in_order(prefix: str, pages: Callable[[str], Iterator[list[str]]]) -> Iterator[str]:
    """All keys that begin with `prefix`.

    `pages(prefix)` gives what lies directly below, page by page.
    """
    # A folder that has become empty may still be listed, in itself.
    below = (text for page in pages(prefix) for text in sorted(page) if text != prefix or not text.endswith("/"))
    for text in in_order_of_texts(below):
        if text.endswith("/"):
            yield from keys_in_order(text, pages)
        else:
            yield text


def in_order_of_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts in order, sorted page by page or not.

    They came in order of themselves or of their names without the slash.
    """
    waiting: list[str] = []
    reached = ""
    for text in texts:
        heapq.heappush(waiting, text)
        # In either order what follows is greater than every name so far; only folders of names that it begins with may be greater still.
        reached = max(reached, text.removesuffix("/"))
        while waiting and waiting[0] <= reached:
            yield heapq.heappop(waiting)
    while waiting:
        yield heapq.heappop(waiting)


def page_of(answer: dict[str, Any]) -> Page:
    """A page of an answer to ListObjectsV2 with a delimiter.

    A server that says that more follows, and not after what, or that sends nothing, has no more.
    """
    found = [str(entry["Key"]) for entry in answer.get("Contents", ()) if "Key" in entry]
    found += [str(entry["Prefix"]) for entry in answer.get("CommonPrefixes", ()) if "Prefix" in entry]
    more = bool(answer.get("IsTruncated")) and bool(found) and "NextContinuationToken" in answer
    return found, {"ContinuationToken": str(answer["NextContinuationToken"])} if more else {}
