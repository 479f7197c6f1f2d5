"""The console's built scripts: addresses by logical name, bytes by file name.

All files are read once, so a page and its scripts fit even if the files are replaced meanwhile, and no name of a request reaches the file
system. Where nothing was built (npm's packages could not be had), there are no addresses and pages do without scripts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ASSETS_PATH = "/-/assets/"
MANIFEST = "manifest.json"

MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}

_PACKAGED = Path(__file__).parent / "built"
_CHECKOUT = (Path(__file__).parent / "../../../../..").resolve()


def built_folder() -> Path | None:
    """Where the built scripts are: in the wheel's package, or `.odf/web`."""
    candidates = [_PACKAGED]
    # A checkout is known by the sources of the scripts: a folder above an installed package may have an `.odf` of something else.
    if (_CHECKOUT / "services/api/web/build.mjs").is_file():
        candidates.append(_CHECKOUT / ".odf/web")
    return next((folder for folder in candidates if (folder / MANIFEST).is_file()), None)


class Assets:
    """The files of one build.

    File names carry a hash of what is in them, so browsers may keep a script for ever.
    """

    def __init__(self, names: Mapping[str, str], files: Mapping[str, bytes]) -> None:
        self._names = dict(names)
        self._files = dict(files)

    @classmethod
    def load(cls, folder: Path | None = None) -> Self:
        """The files of `folder`, by default those of this installation.

        Raises ValueError if the manifest names a missing file.
        """
        found = folder or built_folder()
        if found is None:
            return cls({}, {})
        names: dict[str, str] = json.loads((found / MANIFEST).read_bytes())
        files = {path.name: path.read_bytes() for path in found.iterdir() if path.suffix in MEDIA_TYPES}
        if missing := sorted(set(names.values()) - set(files)):
            raise ValueError(f"{found / MANIFEST} names files that are not there: {', '.join(missing)}")
        return cls(names, files)

    def url(self, name: str) -> str | None:
        """Path of the script that is built from the entry `name`, such as `console`.

        None where there is none.
        """
        file = self._names.get(name)
        return None if file is None else ASSETS_PATH + file

    def read(self, file: str) -> tuple[bytes, str] | None:
        """Bytes and media type of a file by its exact name; None for every other name."""
        content = self._files.get(file)
        return None if content is None else (content, MEDIA_TYPES[Path(file).suffix])
