"""Parts that pull and push messages share.

Plans, batches of blocks, objects, URLs, refusals.

Each has a writer to a plain value and a reader. Invariant: reading what was written gives the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.smart.json_reader import Value, read_value, written
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.transfer.smart import (
    BlocksBatch,
    InternalFailure,
    InvalidHead,
    InvalidInterval,
    NameCollision,
    ObjectFile,
    ObjectKind,
    ObjectUrl,
    Phase,
    RefCollision,
    Refusal,
    SeedOverwriteRestricted,
    TransferPlan,
)

ARCHIVE_MEDIA_TYPE = "application/tar+gzip"
ARCHIVE_ENCODING = "raw"
URL_CHARACTERS_MAX = 16 * 1024
HEADERS_MAX = 100
TEXT_CHARACTERS_MAX = 4096
_PLAN = ("num_blocks", "num_objects", "num_records", "bytes_in_raw_blocks", "bytes_in_raw_objects")

T = TypeVar("T")


def plan_value(plan: TransferPlan) -> dict[str, int]:
    """As JSON."""
    return {name: getattr(plan, name) for name in _PLAN}


def read_plan(value: Value) -> TransferPlan:
    """Raises InvalidRequest."""
    return TransferPlan(**{name: value.member(name).number() for name in _PLAN})


def batch_value(batch: BlocksBatch) -> dict[str, object]:
    """As JSON; the archive is a list of numbers."""
    return {
        "num_blocks": batch.num_blocks,
        "media_type": ARCHIVE_MEDIA_TYPE,
        "encoding": ARCHIVE_ENCODING,
        "payload": list(batch.archive),
    }


def read_batch(value: Value) -> BlocksBatch:
    """Raises InvalidRequest, also for another archive than tar in gzip."""
    for name, only in (("media_type", ARCHIVE_MEDIA_TYPE), ("encoding", ARCHIVE_ENCODING)):
        member = value.member(name)
        if member.text(maximum=100) != only:
            raise member.refusal(f"{only} is expected")
    return BlocksBatch(value.member("num_blocks").number(), value.member("payload").bytes())


def file_value(file: ObjectFile) -> dict[str, object]:
    """As JSON."""
    return {"object_type": file.kind.value, "physical_hash": str(file.physical_hash), "size": file.size}


def read_file(value: Value) -> ObjectFile:
    """Raises InvalidRequest."""
    kind = value.member("object_type")
    found = next((each for each in ObjectKind if each.value == kind.found), None)
    if found is None:
        raise kind.refusal("DataSlice or Checkpoint is expected")
    return ObjectFile(found, value.member("physical_hash").multihash(), value.member("size").number())


def url_value(url: ObjectUrl) -> dict[str, object]:
    """As JSON."""
    return {
        "url": url.url,
        "headers": [{"name": name, "value": value} for name, value in url.headers],
        "expires_at": None if url.expires_at is None else str(url.expires_at),
    }


def read_url(value: Value) -> ObjectUrl:
    """Raises InvalidRequest."""
    headers = value.member("headers").items(maximum=HEADERS_MAX)
    return ObjectUrl(
        url=value.member("url").text(maximum=URL_CHARACTERS_MAX),
        headers=tuple(
            (each.member("name").text(maximum=200), each.member("value").text(maximum=URL_CHARACTERS_MAX))
            for each in headers
        ),
        expires_at=value.member("expires_at").optional(_read_instant),
    )


def _read_instant(value: Value) -> Instant:
    text = value.text(maximum=100)
    try:
        return Instant.parse(text)
    except ValueError:
        raise value.refusal("an RFC 3339 time is expected") from None


def refusal_value(refusal: Refusal) -> dict[str, object]:
    """The variant that stands in `Err`."""
    match refusal:
        case InvalidInterval(head=head, tail=tail):
            return {"InvalidInterval": {"head": str(head), "tail": str(tail)}}
        case InvalidHead(said=said, servers=servers):
            # The reference has these two names swapped.
            return {"InvalidHead": {"actual_head": _hash(said), "expected_head": _hash(servers)}}
        case RefCollision(dataset=dataset):
            return {"RefCollision": {"dataset_id": str(dataset)}}
        case NameCollision(alias=alias):
            return {"NameCollision": {"dataset_alias": alias}}
        case SeedOverwriteRestricted():
            return {"SeedBlockOverwriteRestricted": {}}
        case InternalFailure(phase=phase, message=message):
            direction, step = phase.value
            return {"Internal": {"phase": {direction: step}, "error_message": message}}


def _hash(found: Multihash | None) -> str | None:
    return None if found is None else str(found)


def read_refusal(value: Value) -> Refusal:
    """Raises InvalidRequest, also for an unknown variant."""
    name, content = value.variant()
    match name:
        case "InvalidInterval":
            return InvalidInterval(content.member("head").multihash(), content.member("tail").multihash())
        case "InvalidHead":
            return InvalidHead(
                said=content.member("actual_head").optional(Value.multihash),
                servers=content.member("expected_head").optional(Value.multihash),
            )
        case "RefCollision":
            return RefCollision(content.member("dataset_id").parsed(parse_dataset_id, maximum=200))
        case "NameCollision":
            return NameCollision(content.member("dataset_alias").text(maximum=TEXT_CHARACTERS_MAX))
        case "SeedBlockOverwriteRestricted":
            return SeedOverwriteRestricted()
        case "Internal":
            message = content.member("error_message").text(maximum=TEXT_CHARACTERS_MAX)
            return InternalFailure(_read_phase(content.member("phase")), message)
        case _:
            raise value.refusal("the kind of refusal is not known")


def _read_phase(value: Value) -> Phase:
    direction, step = value.variant()
    found = next((each for each in Phase if each.value == (direction, step.found)), None)
    if found is None:
        raise value.refusal("the phase is not known")
    return found


def written_ok(value: object) -> str:
    """A message that something is right."""
    return written({"Ok": value})


def written_refusal(refusal: Refusal) -> str:
    """A message that something is refused."""
    return written({"Err": refusal_value(refusal)})


def read_result(text: str, read: Callable[[Value], T]) -> T | Refusal:
    """What is in `Ok`, or the refusal in `Err`. Raises InvalidRequest."""
    value = read_value(text)
    name, content = value.variant()
    match name:
        case "Ok":
            return read(content)
        case "Err":
            return read_refusal(content)
        case _:
            raise value.refusal("Ok or Err is expected")


def read_nothing(value: Value) -> None:
    """An object without anything in it. Raises InvalidRequest."""
    if not isinstance(value.found, dict):
        raise value.refusal("an object is expected")
