"""The digest that distinguishes one engine build from another.

Owns what it covers: the bytes of our own modules that the engine runs (service, formats, model, generated code, errors) and
the versions of Java and of the locked packages that can change a result. Two engines of one digest take the same queries and give the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

from odfabric import __version__

ENGINE_NAME = "odfabric-spark"

ENGINE_VERSION = __version__
"""Version of the release that this engine belongs to; a checkout has no package metadata to ask."""

OWN_PACKAGES = ("odfabric_engine_spark", "odfabric.formats", "odfabric.model", "odfabric.generated")
_SINGLE_FILES = (("odfabric", "asked_to_end.py"), ("odfabric", "errors.py"))
_PACKAGES = ("grpcio", "numpy", "pandas", "protobuf", "py4j", "pyarrow", "pyspark")
_SUFFIXES = (".java", ".json", ".properties", ".py")


def engine_digest(java: int) -> str:
    """Engine digest: SHA3-256 (hex) of sources, locked versions, Java feature version.

    Versions of Java write floats otherwise (since 19 the shortest text), and know letters of other years.
    """
    digest = hashlib.sha3_256()
    for name, content in digested_files():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    for package in _PACKAGES:
        digest.update(f"{package}=={version(package)}\0".encode())
    digest.update(f"java=={java}\0".encode())
    return digest.hexdigest()


def digested_files() -> Iterator[tuple[str, bytes]]:
    for package in OWN_PACKAGES:
        yield from _below(package, files(package))
    for package, name in _SINGLE_FILES:
        yield f"{package}/{name}", files(package).joinpath(name).read_bytes()


def _below(name: str, folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _below(f"{name}/{entry.name}", entry)
        elif entry.name.endswith(_SUFFIXES):
            yield f"{name}/{entry.name}", entry.read_bytes()
