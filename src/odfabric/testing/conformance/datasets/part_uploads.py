"""What every adapter of PartUploads does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from odfabric.errors import Changed, InvalidName, NotFound
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.part_uploads import PART_BYTES_MIN, PartUploads, StoredPart

KEY = "staging/file"
FIRST, LAST = b"a" * PART_BYTES_MIN, b"the end"
Send = Callable[[str, bytes], str | None]
"""PUT of bytes to a URL: the entity tag without quotes, None if it is refused."""


class PartUploadsContract:
    """Fixtures: `parts`, the `objects` beside them, and `send`."""

    def begun(self, parts: PartUploads, send: Send) -> tuple[str, list[StoredPart]]:
        """An upload of which all parts are there."""
        upload = parts.begin(KEY)
        for number, data in ((2, LAST), (1, FIRST)):
            assert send(parts.link(KEY, upload, number, size=len(data), lifetime_s=60), data)
        return upload, list(parts.stored(KEY, upload))

    def test_parts_become_one_object(self, parts: PartUploads, objects: ObjectStore, send: Send) -> None:
        upload, stored = self.begun(parts, send)
        assert [(part.number, part.size) for part in stored] == [(1, len(FIRST)), (2, len(LAST))]
        assert objects.stat(KEY) is None
        parts.complete(KEY, upload, stored)
        assert objects.read_bytes(KEY, size_max=2 * len(FIRST)) == FIRST + LAST
        with pytest.raises(NotFound):
            parts.stored(KEY, upload)
        with pytest.raises(NotFound):
            parts.complete(KEY, upload, stored)

    def test_a_part_may_be_sent_again(self, parts: PartUploads, objects: ObjectStore, send: Send) -> None:
        upload, stored = self.begun(parts, send)
        tag = send(parts.link(KEY, upload, 2, size=len(LAST), lifetime_s=60), LAST[::-1])
        assert tag
        again = StoredPart(2, len(LAST), tag)
        assert again in parts.stored(KEY, upload)
        with pytest.raises(Changed):
            parts.complete(KEY, upload, [stored[0], replace(again, tag="0" * 32)])
        parts.complete(KEY, upload, [stored[0], again])
        assert objects.read_bytes(KEY, size_max=2 * len(FIRST)) == FIRST + LAST[::-1]

    def test_the_tag_that_the_sender_gets_is_that_of_the_part(self, parts: PartUploads, send: Send) -> None:
        upload = parts.begin(KEY)
        tag = send(parts.link(KEY, upload, 1, size=len(LAST), lifetime_s=60), LAST)
        assert parts.stored(KEY, upload) == [StoredPart(1, len(LAST), str(tag))]

    def test_a_url_allows_one_part_of_one_size(self, parts: PartUploads, send: Send) -> None:
        upload = parts.begin(KEY)
        link = parts.link(KEY, upload, 1, size=len(LAST), lifetime_s=60)
        assert send(link, LAST + b"!") is None
        assert send(link, LAST[:-1]) is None
        assert parts.stored(KEY, upload) == []
        assert send(link, LAST)

    def test_an_object_that_is_there_stays(self, parts: PartUploads, objects: ObjectStore, send: Send) -> None:
        upload, stored = self.begun(parts, send)
        objects.put_bytes(KEY, b"first")
        parts.complete(KEY, upload, stored)
        assert objects.read_bytes(KEY, size_max=10) == b"first"

    def test_what_is_aborted_takes_no_parts(self, parts: PartUploads, objects: ObjectStore, send: Send) -> None:
        upload, stored = self.begun(parts, send)
        link = parts.link(KEY, upload, 1, size=len(LAST), lifetime_s=60)
        parts.abort(KEY, upload)
        parts.abort(KEY, upload)
        assert send(link, LAST) is None
        with pytest.raises(NotFound):
            parts.complete(KEY, upload, stored)
        assert objects.stat(KEY) is None

    def test_unfinished_uploads_are_listed(self, parts: PartUploads, send: Send) -> None:
        done, stored = self.begun(parts, send)
        parts.complete(KEY, done, stored)
        parts.abort("staging/gone", parts.begin("staging/gone"))
        kept = {(key, parts.begin(key)) for key in ("staging/one", "staging/one", "staging/a/two", "other/three")}
        found = {(each.key, each.upload) for each in parts.unfinished("staging/")}
        assert found == {each for each in kept if each[0] != "other/three"}

    def test_keys_are_those_of_objects(self, parts: PartUploads) -> None:
        for key in ("../up", "", ".hidden"):
            with pytest.raises(InvalidName):
                parts.begin(key)
