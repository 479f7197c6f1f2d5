"""Messages of a push. Source: RFC-007."""

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
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.smart import (
    BlocksBatch,
    ObjectUpload,
    PushBegin,
    PushObjects,
    Refusal,
    UploadProgress,
)

HTTP_UPLOAD = "HttpUpload"
SKIP_UPLOAD = "SkipUpload"
COMPLETE = "Complete"


def write_push_begin(message: PushBegin) -> str:
    """The first message of the client."""
    return written(
        {
            "current_head": None if message.current_head is None else str(message.current_head),
            "transfer_plan": plan_value(message.plan),
            "force_update_if_diverged": message.force,
            "visibility_for_created_dataset": message.visibility.value.capitalize(),
        }
    )


def read_push_begin(text: str) -> PushBegin:
    """Raises InvalidRequest."""
    value = read_value(text)
    return PushBegin(
        current_head=value.member("current_head").optional(Value.multihash),
        plan=read_plan(value.member("transfer_plan")),
        force=value.member("force_update_if_diverged").flag(),
        visibility=value.member("visibility_for_created_dataset").optional(_read_visibility) or Visibility.PRIVATE,
    )


def _read_visibility(value: Value) -> Visibility:
    for each in Visibility:
        if value.found in (each.value, each.value.capitalize()):
            return each
    raise value.refusal("Private or Public is expected")


def write_push_accepted(refusal: Refusal | None) -> str:
    """The server's answer to the first message, and to the blocks."""
    return written_ok({}) if refusal is None else written_refusal(refusal)


def read_push_accepted(text: str) -> Refusal | None:
    """None if it goes on. Raises InvalidRequest."""
    return read_result(text, read_nothing)


def write_pushed_blocks(batch: BlocksBatch) -> str:
    """The client's blocks."""
    return written({"new_blocks": batch_value(batch)})


def read_pushed_blocks(text: str) -> BlocksBatch:
    """Raises InvalidRequest."""
    return read_batch(read_value(text).member("new_blocks"))


def write_push_objects(message: PushObjects) -> str:
    """What the new blocks name."""
    return written({"object_files": [file_value(each) for each in message.files], "is_truncated": message.is_truncated})


def read_push_objects(text: str) -> PushObjects:
    """Raises InvalidRequest."""
    value = read_value(text)
    files = tuple(read_file(each) for each in value.member("object_files").items())
    return PushObjects(files, value.member("is_truncated").optional(Value.flag) or False)


def write_uploads(answer: Sequence[ObjectUpload] | Refusal) -> str:
    """Where the client writes them."""
    if not isinstance(answer, Sequence):
        return written_refusal(answer)
    strategies = [
        {
            "object_file": file_value(each.file),
            "push_strategy": SKIP_UPLOAD if each.target is None else HTTP_UPLOAD,
            "upload_to": None if each.target is None else url_value(each.target),
        }
        for each in answer
    ]
    return written_ok({"object_transfer_strategies": strategies})


def read_uploads(text: str) -> tuple[ObjectUpload, ...] | Refusal:
    """Raises InvalidRequest."""
    return read_result(
        text, lambda value: tuple(_read_upload(each) for each in value.member("object_transfer_strategies").items())
    )


def _read_upload(value: Value) -> ObjectUpload:
    file, strategy = read_file(value.member("object_file")), value.member("push_strategy")
    match strategy.found:
        case "SkipUpload":
            return ObjectUpload(file, None)
        case "HttpUpload":
            return ObjectUpload(file, read_url(value.member("upload_to")))
        case _:
            raise strategy.refusal(f"{SKIP_UPLOAD} or {HTTP_UPLOAD} is expected")


def write_nothing() -> str:
    """The empty message: a question about progress, the end, its confirmation.

    The server asks about progress with it, the client ends with it, and the server confirms the end with it.
    """
    return written({})


def read_empty(text: str) -> None:
    """Raises InvalidRequest."""
    read_nothing(read_value(text))


def write_progress(progress: UploadProgress) -> str:
    """How far the client is."""
    if progress.uploaded is None:
        return written({"details": COMPLETE})
    return written({"details": {"Running": {"uploaded_objects_count": progress.uploaded}}})


def read_progress(text: str) -> UploadProgress:
    """Raises InvalidRequest."""
    details = read_value(text).member("details")
    if details.found == COMPLETE:
        return UploadProgress(None)
    name, content = details.variant()
    if name != "Running":
        raise details.refusal(f"Running or {COMPLETE} is expected")
    return UploadProgress(content.member("uploaded_objects_count").number())
