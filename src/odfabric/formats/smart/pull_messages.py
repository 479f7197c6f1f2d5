"""Messages of a pull. Source: RFC-007."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.formats.smart.json_reader import Value, read_value, written
from odfabric.formats.smart.shared_parts import (
    batch_value,
    file_value,
    plan_value,
    read_batch,
    read_file,
    read_nothing,
    read_plan,
    read_result,
    read_url,
    url_value,
    written_ok,
    written_refusal,
)
from odfabric.model.transfer.smart import BlocksBatch, ObjectDownload, ObjectFile, PullBegin, Refusal, TransferPlan

HTTP_DOWNLOAD = "HttpDownload"


def write_pull_begin(message: PullBegin) -> str:
    """The first message of the client."""
    return written(
        {
            "begin_after": None if message.begin_after is None else str(message.begin_after),
            "stop_at": None if message.stop_at is None else str(message.stop_at),
            "force_update_if_diverged": message.force,
        }
    )


def read_pull_begin(text: str) -> PullBegin:
    """Raises InvalidRequest."""
    value = read_value(text)
    return PullBegin(
        begin_after=value.member("begin_after").optional(Value.multihash),
        stop_at=value.member("stop_at").optional(Value.multihash),
        force=value.member("force_update_if_diverged").flag(),
    )


def write_pull_plan(answer: TransferPlan | Refusal) -> str:
    """The server's answer to it."""
    if isinstance(answer, TransferPlan):
        return written_ok({"transfer_plan": plan_value(answer)})
    return written_refusal(answer)


def read_pull_plan(text: str) -> TransferPlan | Refusal:
    """Raises InvalidRequest."""
    return read_result(text, lambda value: read_plan(value.member("transfer_plan")))


def write_blocks_wanted() -> str:
    """The client wants the blocks of the plan."""
    return written({})


def read_blocks_wanted(text: str) -> None:
    """Raises InvalidRequest."""
    read_nothing(read_value(text))


def write_pulled_blocks(batch: BlocksBatch) -> str:
    """The server's blocks, in no `Ok`."""
    return written({"blocks": batch_value(batch)})


def read_pulled_blocks(text: str) -> BlocksBatch:
    """Raises InvalidRequest."""
    return read_batch(read_value(text).member("blocks"))


def write_objects_wanted(files: Sequence[ObjectFile]) -> str:
    """The objects that the client lacks."""
    return written({"object_files": [file_value(each) for each in files]})


def read_objects_wanted(text: str) -> tuple[ObjectFile, ...]:
    """Raises InvalidRequest."""
    return tuple(read_file(each) for each in read_value(text).member("object_files").items())


def write_downloads(downloads: Sequence[ObjectDownload]) -> str:
    """Where the client reads them."""
    return written(
        {
            "object_transfer_strategies": [
                {
                    "object_file": file_value(each.file),
                    "pull_strategy": HTTP_DOWNLOAD,
                    "download_from": url_value(each.source),
                }
                for each in downloads
            ]
        }
    )


def read_downloads(text: str) -> tuple[ObjectDownload, ...]:
    """Raises InvalidRequest."""
    return tuple(_read_download(each) for each in read_value(text).member("object_transfer_strategies").items())


def _read_download(value: Value) -> ObjectDownload:
    strategy = value.member("pull_strategy")
    if strategy.found != HTTP_DOWNLOAD:
        raise strategy.refusal(f"{HTTP_DOWNLOAD} is expected")
    return ObjectDownload(read_file(value.member("object_file")), read_url(value.member("download_from")))
