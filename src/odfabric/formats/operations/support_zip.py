"""The file of a support bundle: a ZIP with one folder."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

FOLDER = "odf-support"
_TIME = (1980, 1, 1, 0, 0, 0)
"""When the bundle was made is in one of its files."""


def support_zip(files: Mapping[str, bytes]) -> bytes:
    """Bytes of the archive; equal files give equal bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{FOLDER}/{name}", _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, data)
    return made.getvalue()
