"""The verbs on a node elsewhere, over its REST interface.

Owns what each verb asks for and how its answer becomes a result; how a request is made is `node_connection`'s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from odfabric.cli.backends.backend import (
    CursorBackend,
    FlowBackend,
    JobFailed,
    JobListener,
    PushFile,
    VariableBackend,
    VerifyWish,
    WebhookBackend,
    linked_rows,
    source_text,
)
from odfabric.cli.backends.chunked_upload import is_large, push_in_chunks
from odfabric.cli.backends.cursor_backends import NodeCursors
from odfabric.cli.backends.node_connection import LOOK_EVERY_S_MAX, NodeConnection
from odfabric.cli.backends.people_backend import PeopleBackend
from odfabric.domain.people.access import LOCAL_ACCOUNT
from odfabric.errors import InvalidQuery, InvalidRequest, NotFound
from odfabric.formats.provenance.question import question_value
from odfabric.model.people.account import Visibility
from odfabric.usecases.jobs.problem import problem_document, query_refusal, retry_line

if TYPE_CHECKING:
    import httpx

    from odfabric.cli.backends.head_backends import HeadBackend
    from odfabric.cli.backends.history_backends import HistoryBackend
    from odfabric.cli.backends.sharing_backends import SharingBackend
    from odfabric.formats.manifests.manifest_places import PlacedSnapshot
    from odfabric.model.metadata import DatasetKind
    from odfabric.model.why_request import WhyRequest

READ_BYTES = 1 << 20
LOOK_EVERY_S = 0.05
BODY = "body"
"""What a node calls the data of a push in its problems."""


class NodeBackend:
    """A `Backend` on a node reached by HTTP."""

    def __init__(self, url: str, *, token: str | None, account: str | None = None, listener: JobListener) -> None:
        """`account` owns datasets that are named without one.

        None: the node is asked whose token it is.
        """
        self.connection = NodeConnection(url, token=token)
        self._account = account
        self._listener = listener

    def close(self) -> None:
        """End the connections."""
        self.connection.close()

    @property
    def cursors(self) -> CursorBackend:
        """Verbs of cursors."""
        return NodeCursors(self.connection.send, self._path)

    @property
    def flows(self) -> FlowBackend:
        """Verbs of flows."""
        from odfabric.cli.backends.automation.flow_backends import NodeFlows

        return NodeFlows(self.connection.send, self._path)

    @property
    def variables(self) -> VariableBackend:
        """Verbs of variables."""
        from odfabric.cli.backends.automation.variable_backends import NodeVariables

        return NodeVariables(self.connection.send, self._path)

    @property
    def webhooks(self) -> WebhookBackend:
        """Verbs of webhooks."""
        from odfabric.cli.backends.automation.webhook_backend import NodeWebhooks

        return NodeWebhooks(self.connection.send, self._path)

    @property
    def heads(self) -> HeadBackend:
        """Verbs of signed heads and their keys."""
        from odfabric.cli.backends.head_backends import NodeHeads

        return NodeHeads(self.connection.send, self._path)

    @property
    def sharing(self) -> SharingBackend:
        """Verbs of repositories elsewhere, and of pushes there."""
        from odfabric.cli.backends.sharing_backends import NodeSharing

        return NodeSharing(self.connection.send, self._path, self._finished)

    @property
    def history(self) -> HistoryBackend:
        """Verbs that rewrite history."""
        from odfabric.cli.backends.history_backends import NodeHistory

        return NodeHistory(self.connection.send, self._path, self._finished)

    @property
    def people(self) -> PeopleBackend:
        """Verbs of accounts and rights."""
        from odfabric.cli.backends.people.node_people import NodePeople

        return NodePeople(self.connection, self._path)

    def add(self, path: str, *, visibility: Visibility | None = None) -> list[dict[str, object]]:
        """Create the datasets of a manifest file."""
        added: list[dict[str, object]] = []
        target = f"/datasets?visibility={visibility.value}" if visibility else "/datasets"
        for placed in _manifests(path):
            try:
                added.append(self._send_manifest("POST", target, placed))
            except JobFailed as failed:
                raise JobFailed(_after(added, failed.document)) from None
        return added

    def set_transform(self, path: str, *, anew: bool = False) -> list[dict[str, object]]:
        """Change the transforms of all datasets of a manifest file, in order."""
        from odfabric.model.metadata import DatasetKind

        member = f"/transform{'?anew=true' if anew else ''}"
        return self._change(path, DatasetKind.DERIVATIVE, member)

    def set_source(self, path: str) -> list[dict[str, object]]:
        """Change the sources of all datasets of a manifest file, in order."""
        from odfabric.model.metadata import DatasetKind

        return self._change(path, DatasetKind.ROOT, "/sources")

    def set_info(self, path: str) -> list[dict[str, object]]:
        """Change what all datasets of a manifest file say of themselves, in order."""
        return self._change(path, None, "/info")

    def _change(self, path: str, kind: DatasetKind | None, member: str) -> list[dict[str, object]]:
        return [
            self._send_manifest("PUT", self._path(str(placed.snapshot.name)) + member, placed)
            for placed in _manifests(path)
            if kind in (None, placed.snapshot.kind)
        ]

    def datasets(self) -> list[dict[str, object]]:
        """All datasets, page by page."""
        return self.connection.pages("/datasets", "datasets", {})

    def show(self, ref: str) -> dict[str, object]:
        """What a dataset is now."""
        path = self._path(ref)
        params = {"include": "info,license,refs,schema,seed,vocab", "schemaFormat": "OdfJson"}
        shown = self.connection.json("GET", f"{path}/metadata", params=params)["output"]
        assert isinstance(shown, dict)
        seed = shown.pop("seed")
        return {
            "id": seed["datasetId"],
            "alias": self._alias(str(seed["datasetId"])),
            "kind": str(seed["datasetKind"]).capitalize(),
            "head": next(found["blockHash"] for found in shown["refs"] if found["name"] == "head"),
            **shown,
        }

    def push(self, ref: str, push: PushFile) -> dict[str, object]:
        """Push one file, a large one in chunks.

        Wait for its job if the node does not answer at once.
        """
        return self._pushed(ref, push, {})

    def try_push(self, ref: str, push: PushFile) -> dict[str, object]:
        """What a push would do."""
        return self._pushed(ref, push, {"dryRun": "true"})

    def _pushed(self, ref: str, push: PushFile, wishes: Mapping[str, str]) -> dict[str, object]:
        headers = {
            "content-type": push.media_type,
            "odf-event-time": str(push.event_time) if push.event_time else None,
            "idempotency-key": push.idempotency_key,
            "odf-allow-shrink": "true" if push.allow_shrink else None,
        }

        def attempt() -> httpx.Response:
            return self.connection.attempt(
                "POST",
                f"{self._path(ref)}/ingest",
                content=_chunks(push.path),
                params={"sourceName": push.source_name, **wishes} if push.source_name else wishes,
                headers={name: value for name, value in headers.items() if value is not None},
            )

        try:
            if is_large(push) and not wishes:
                answer = push_in_chunks(self.connection, self._path(ref), push)
            else:
                answer = self.connection.patiently(attempt, repeats=push.idempotency_key is not None)
            return dict(self._finished(answer))
        except JobFailed as failed:
            raise JobFailed(_with_file(failed.document, push.name)) from None

    def pull(
        self,
        ref: str,
        *,
        url: str | None,
        recursive: bool,
        fetch_uncacheable: bool = False,
        fetch_again: bool = False,
        allow_shrink: bool = False,
        force: bool = False,
        recompute: bool = False,
    ) -> dict[str, object]:
        """Bring a dataset up to date and wait."""
        body = {
            "url": url,
            "recursive": recursive,
            "fetchUncacheable": fetch_uncacheable,
            "fetchAgain": fetch_again,
            "allowShrink": allow_shrink,
            **({"force": True} if force else {}),
            **({"recompute": True} if recompute else {}),
        }
        return dict(self._finished(self.connection.send("POST", f"{self._path(ref)}/pull", json=body)))

    def log(self, ref: str, *, limit: int) -> list[dict[str, object]]:
        """Blocks, newest first, decoded here from the very bytes that the node serves."""
        from odfabric.formats.blocks.block import block_hash, decode_block, read_block_header
        from odfabric.formats.identifiers.multihash import parse_multihash
        from odfabric.formats.manifests.manifest_yaml import block_to_manifest

        path = self._path(ref)
        name = self.connection.send("GET", f"{path}/refs/head").text
        found: list[dict[str, object]] = []
        while len(found) < limit:
            data = self.connection.send("GET", f"{path}/blocks/{name}").content
            if str(block_hash(data)) != str(parse_multihash(name)):
                raise InvalidRequest(f"the block served as {name} does not hash to its name")
            block = decode_block(data)
            found.append(
                {"hash": name, "block": block_to_manifest(block, version=read_block_header(data).manifest_version)}
            )
            if block.prev_block_hash is None:
                break
            name = str(block.prev_block_hash)
        return found

    def tail(
        self, ref: str, *, limit: int, skip: int, as_at: str | None = None, corrects: bool = False
    ) -> list[dict[str, object]]:
        """The last rows."""
        params = {"limit": str(limit), "skip": str(skip), **({"asAt": as_at} if as_at is not None else {})}
        params |= {"corrects": "true"} if corrects else {}
        return linked_rows(self.connection.json("GET", f"{self._path(ref)}/tail", params=params))

    def state(self, ref: str, *, as_at: str | None, as_of: str | None, limit: int, skip: int) -> dict[str, object]:
        """The rows at a moment."""
        params = {"asAt": as_at, "asOf": as_of, "limit": str(limit), "skip": str(skip)}
        given = {name: value for name, value in params.items() if value is not None}
        return dict(self.connection.json("GET", f"{self._path(ref)}/state", params=given))

    def sql(
        self, query: str, *, limit: int, as_at: str | None = None, as_of: str | None = None
    ) -> list[dict[str, object]]:
        """Rows of a query."""
        moments = {"asAt": as_at, "asOf": as_of}
        body = {"query": query, "limit": limit, **{name: text for name, text in moments.items() if text is not None}}
        output = self.connection.patiently(
            lambda: self.connection.attempt("POST", "/query", json=body), repeats=True
        ).json()["output"]
        assert isinstance(output, dict)
        return list(output["data"])

    def why(self, ref: str, asked: WhyRequest) -> dict[str, object]:
        """Why records are there.

        It changes nothing, so it is asked for again if the answer breaks off.
        """
        found = self._why(ref, asked, "json")
        assert isinstance(found, dict)
        return found

    def why_in(self, ref: str, asked: WhyRequest, form: Literal["prov", "openlineage"], *, namespace: str) -> object:
        """The same in another form; the node names itself."""
        return self._why(ref, asked, form)

    def _why(self, ref: str, asked: WhyRequest, form: str) -> object:
        body = {**question_value(asked), "format": form}
        path = f"{self._path(ref)}/why"
        answer = self.connection.patiently(lambda: self.connection.attempt("POST", path, json=body), repeats=True)
        if answer.status_code != 202:
            return answer.json()
        # A question that took too long to wait for: its answer has rights of its own.
        address = str(self._finished(answer)["answer"])
        return self.connection.send("GET", address, params={"format": form}).json()

    def verify(self, ref: str, wish: VerifyWish) -> dict[str, object]:
        """Verify a dataset and wait.

        It changes nothing, so it is asked for again if the answer breaks off.
        """
        path = f"{self._path(ref)}/verify"
        members = {"data": wish.data, "replay": wish.replay, "after": wish.after, "until": wish.until}
        body = {name: value for name, value in members.items() if value is not None}
        body |= {name: True for name, wished in (("report", wish.report), ("fetch", wish.fetch)) if wished}
        answer = self.connection.patiently(lambda: self.connection.attempt("POST", path, json=body), repeats=True)
        return dict(self._finished(answer))

    def delete(self, ref: str) -> dict[str, object]:
        """Delete a dataset."""
        path = self._path(ref)
        seed = self.connection.json("GET", f"{path}/metadata")["output"]
        assert isinstance(seed, dict)
        dataset_id = str(seed["seed"]["datasetId"])
        alias = self._alias(dataset_id)
        self.connection.send("DELETE", f"/datasets/{quote(dataset_id)}")
        return {"id": dataset_id, "alias": alias}

    def rename(self, ref: str, name: str) -> dict[str, object]:
        """Rename a dataset."""
        found = self.connection.json("PUT", f"{self._path(ref)}/name", json={"name": name})
        owner = found["owner"]
        assert isinstance(owner, dict)
        return {"id": found["id"], "alias": f"{owner['accountName']}/{found['datasetName']}"}

    def _send_manifest(self, method: str, path: str, placed: PlacedSnapshot) -> dict[str, object]:
        """Send one manifest of a file; problems of its query name the file."""
        from odfabric.formats.manifests.manifest_yaml import snapshot_to_manifest

        body = json.dumps(snapshot_to_manifest(placed.snapshot)).encode()
        try:
            return dict(self.connection.json(method, path, content=body, headers={"content-type": "application/json"}))
        except JobFailed as failed:
            raise JobFailed(_in_file(failed.document, placed)) from None

    def _path(self, ref: str) -> str:
        if ref.startswith("did:"):
            return "/" + quote(self._alias(ref))
        account, _, name = ref.rpartition("/")
        return f"/{quote(account or self._own_account(), safe='')}/{quote(name, safe='')}"

    def _own_account(self) -> str:
        """The account of the token.

        Without one the node's first, whose datasets have no other name on a node of one person.
        """
        if self._account is None:
            self._account = str(LOCAL_ACCOUNT)
            if self.connection.has_token:
                self._account = self._account_of_token()
        return self._account

    def _account_of_token(self) -> str:
        try:
            return str(self.connection.json("GET", "/accounts/me")["accountName"])
        except JobFailed as failed:
            if failed.document.get("code") != NotFound.code:
                raise
            return str(LOCAL_ACCOUNT)  # a node of an older release has no other account

    def _alias(self, dataset_id: str) -> str:
        """The name as it was given when the dataset was made; names do not differ by case."""
        found = self.connection.json("GET", f"/datasets/{quote(dataset_id)}")
        owner = found["owner"]
        assert isinstance(owner, dict)
        return f"{owner['accountName']}/{found['datasetName']}"

    def _finished(self, answer: httpx.Response) -> Mapping[str, object]:
        """The answer itself, or the result of the job that it names."""
        value: dict[str, object] = answer.json()
        if answer.status_code != 202:
            return value
        accepted = value["job"]
        assert isinstance(accepted, dict)
        pause_s = LOOK_EVERY_S
        while True:
            job = self.connection.json("GET", f"/jobs/{accepted['id']}")
            self._tell(job)
            match job["status"], job["result"], job["error"]:
                case "succeeded", dict(result), _:
                    return result
                case "failed" | "cancelled" as status, _, error:
                    raise JobFailed(error if isinstance(error, dict) else {"message": f"the job was {status}"})
                case _:
                    time.sleep(pause_s)
                    pause_s = min(pause_s * 1.3, LOOK_EVERY_S_MAX)

    def _tell(self, job: Mapping[str, object]) -> None:
        progress, error = job["progress"], job["error"]
        if job["status"] == "queued" and isinstance(error, dict):
            self._listener({"stage": retry_line(error) or f"will be tried again: {error.get('message')}"})
        elif isinstance(progress, dict):
            self._listener(progress)


def _after(added: Sequence[Mapping[str, object]], document: Mapping[str, object]) -> dict[str, object]:
    """A problem with a later manifest of a file, with what the earlier ones made."""
    if not added:
        return dict(document)
    hint = f"created before it: {', '.join(str(one['alias']) for one in added)}"
    return {**document, "hint": hint, "detail": f"{document.get('message')} ({hint})"}


def _manifests(path: str) -> list[PlacedSnapshot]:
    from odfabric.formats.manifests.manifest_yaml import MANIFEST_LIMITS, parse_placed_snapshots

    text, shown = source_text(path, bytes_max=MANIFEST_LIMITS.bytes_max)
    return parse_placed_snapshots(text, file=shown)


def _in_file(document: Mapping[str, object], placed: PlacedSnapshot) -> Mapping[str, object]:
    """A problem with a manifest, placed in the file.

    The node places it in the text that was sent to it.
    """
    from odfabric.formats.manifests.manifest_places import OF_MANIFESTS

    code, message = document.get("code"), document.get("message")
    kind = next((each for each in OF_MANIFESTS if each.code == code), None)
    if kind is None or not isinstance(message, str) or (kind is InvalidQuery and document.get("field") is None):
        return document
    told = _within_text(document)
    refused = told if kind is InvalidQuery else kind(told.message, place=told.place, hint=told.hint)
    errors = document.get("errors")
    if isinstance(refused, InvalidQuery) and isinstance(errors, list):
        first, *others = [_within_text(one) for one in errors if isinstance(one, dict)] or [refused]
        refused.suggestion, refused.also = first.suggestion, tuple(others)
    placed.put_in_file(refused)
    found = {key: value for key, value in document.items() if key not in ("line", "column")}
    return found | problem_document(refused)


def _within_text(members: Mapping[str, object]) -> InvalidQuery:
    """A problem of a node, placed in the query that was sent, not in its manifest."""
    refused = query_refusal(members)
    line, column = refused.place.query_line, refused.place.query_column
    refused.place = replace(refused.place, file=None, line=line, column=column, query_line=None, query_column=None)
    return refused


def _with_file(document: Mapping[str, object], path: str) -> dict[str, object]:
    """A problem of a pushed body, named by its file; the node knows it as `body`."""
    if document.get("file") != BODY:
        return dict(document)
    errors = document.get("errors")
    named = [{**one, "file": path} for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    detail = path + str(document.get("detail", "")).removeprefix(BODY)
    return {**document, "file": path, "detail": detail, "errors": named}


def _chunks(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as stream:
        while chunk := stream.read(READ_BYTES):
            yield chunk
