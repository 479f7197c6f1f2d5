"""Encodings of text files: which names of them a node reads.

Owns the list, what a name of it means, and what to write instead of a name that is not in it. Not here: how bytes are decoded
(`odfabric_engine_spark.ingest.encodings`).
"""

from __future__ import annotations

import codecs
import difflib

from odfabric.errors import InvalidManifest, Place

KNOWN_ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii"),
    *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
    *(f"cp{page}" for page in range(1250, 1259)),
    *("cp437", "cp850", "cp852", "cp866", "cp874", "koi8-r", "koi8-u", "mac-roman"),
    *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030", "big5", "euc_kr", "cp949"),
)
"""Encodings that are read, under the names that messages use; other usual names of them are known too."""

_MEANT = {
    "ansi": "cp1252",
    "windows-31j": "cp932",
    "ms932": "cp932",
    "ms949": "cp949",
    "macintosh": "mac-roman",
    "oem": "cp850",
    "unicode": "utf-16",
    "ucs-2": "utf-16",
    "utf-8-sig": "utf-8",
    "utf-8-bom": "utf-8",
    "utf8-bom": "utf-8",
    "utf8mb4": "utf-8",
    "utf-7": "utf-8",
    "ebcdic": "utf-8",
}
"""What people mean by names that are not those of one encoding, in lower case with `-`."""


def encoding_name(name: str | None) -> str | None:
    """The name under which Python knows an encoding that is read, UTF-8 for None.

    None for any other.
    """
    try:
        found = codecs.lookup(name or "utf-8").name
    except (LookupError, ValueError):
        return None
    return found if found in _READ else None


def check_encoding(name: str | None, *, field: str = "encoding") -> InvalidManifest | None:
    """Why a read step must not name this encoding, and what to write instead.

    None if it may. `field` is its place.
    """
    if encoding_name(name) is not None:
        return None
    close = _close(name or "")
    instead = f"write {' or '.join(f'`{each}`' for each in close)}; " if close else ""
    return InvalidManifest(
        f"Encoding `{name}` is not known",
        place=Place(field=field),
        hint=f"{instead}known: {', '.join(KNOWN_ENCODINGS)}",
    )


def _close(name: str) -> list[str]:
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in _MEANT:
        return [_MEANT[plain]]
    if encoding_name(plain) is not None:
        return [plain]
    return difflib.get_close_matches(plain, KNOWN_ENCODINGS, n=2, cutoff=0.7)


_READ = frozenset(codecs.lookup(known).name for known in KNOWN_ENCODINGS)
