"""Who this node is: its account, and the token that opens it.

Owns the files of the workspace in which both are kept. Invariant: they are made once, whichever process comes first.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from odfabric.adapters.local_fs.dataset_keys import KeyFileDatasetKeys
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.errors import AlreadyExists, InvalidName
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.identity import DatasetId
from odfabric.settings import Settings

TOKEN_FILE = "node.token"
ACCOUNT_FILE = "account.id"
SYSTEM_ACCOUNT_FILE = "system-account.id"
KEY_FILE = "dataset-keys.key"
PRIVATE_FILES = (TOKEN_FILE, ACCOUNT_FILE, SYSTEM_ACCOUNT_FILE, KEY_FILE)
TOKEN_PREFIX = "odf_"


def account_id(settings: Settings) -> str:
    """Identity of the node's account, made once.

    Nothing is signed with it, so only its public half is kept.
    """
    key = KeyFileDatasetKeys(settings.workspace / KEY_FILE, entropy=SystemEntropy()).create()
    return str(DatasetId(bytes.fromhex(_text_made_once(settings.workspace / ACCOUNT_FILE, key.public.hex()))))


def system_account_id(settings: Settings) -> str:
    """Identity of the account that owns the node's own datasets, made once."""
    key = KeyFileDatasetKeys(settings.workspace / KEY_FILE, entropy=SystemEntropy()).create()
    return str(DatasetId(bytes.fromhex(_text_made_once(settings.workspace / SYSTEM_ACCOUNT_FILE, key.public.hex()))))


def token(settings: Settings) -> str:
    """The node's token: the one that was set, else the workspace's own, made once.

    It ends with a checksum, so that a scanner of leaked secrets can tell it from a look-alike.
    """
    if settings.token is not None:
        return settings.token.get_secret_value()
    body = SystemEntropy().random_bytes(20).hex()
    return _text_made_once(settings.workspace / TOKEN_FILE, f"{TOKEN_PREFIX}{body}{zlib.crc32(body.encode()):08x}")


def own_part(settings: Settings) -> str:
    """What keeps things of this node apart in objects that it shares with others.

    Empty if it has them alone.
    """
    return f"{parse_dataset_id(account_id(settings)).multibase}/" if settings.heads == "objects" else ""


def private_files(settings: Settings) -> Mapping[str, bytes]:
    """Files that the workspace cannot do without and nothing else holds, by name."""
    paths = (settings.workspace / name for name in PRIVATE_FILES)
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def put_private_files(settings: Settings, files: Mapping[str, bytes]) -> None:
    """Put such files into a workspace, which is made if need be.

    Raises AlreadyExists for one that has others, InvalidName.
    """
    for name, content in files.items():
        if name not in PRIVATE_FILES:
            raise InvalidName(f"'{name}' is no file of a workspace", hint=f"they are {', '.join(PRIVATE_FILES)}")
        path = settings.workspace / name
        if path.exists() and path.read_bytes() != content:
            raise AlreadyExists(
                f"there is another {name} in {settings.workspace}",
                hint="it belongs to another node: restore into a new folder",
            )
    settings.workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, content in files.items():
        _made_once(settings.workspace / name, content)


def _made_once(path: Path, content: bytes) -> bytes:
    """Content of a private file that is made if it is not there.

    Of several processes that start at once the first one's stays.
    """
    if not path.exists():
        # Not named by the process: those of two containers may have the same number.
        pending = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        try:
            os.link(pending, path)
        except FileExistsError:
            pass
        finally:
            pending.unlink()
    return path.read_bytes()


def _text_made_once(path: Path, text: str) -> str:
    return _made_once(path, text.encode()).decode().strip()
