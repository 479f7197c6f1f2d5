"""REST questions to other nodes about themselves and our account there.

Owns small questions, and that why records are there. Invariant: the token of an origin goes to that origin and nowhere else; an answer is
bounded, and one that is not what it should be is named with its place. Source: RFC-007.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote, urlencode

from odfabric.adapters.http.egress import Answer, Egress, SizeLimit
from odfabric.adapters.http.url import parse_http_url
from odfabric.domain.sources.remote_answers import failed_answer, login_hint
from odfabric.domain.transfer.direction import without_smart_prefix
from odfabric.errors import CorruptedSource, Determinate, Indeterminate, InvalidName, OdfError, Unauthenticated
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.identity import DatasetId, Name
from odfabric.model.node.remembered import Remembered
from odfabric.ports.transfer.nodes import WHY_BYTES_LIMIT, FoundDataset, QueuedAnswer

ANSWER_BYTES_MAX = 1024 * 1024
ACCEPTED = 202
JOBS_REMEMBERED_MAX = 1000
"""Questions whose jobs on other nodes a process remembers."""
LOOK_EVERY_S, LOOK_EVERY_S_MAX = 0.25, 2.0
_JOB = re.compile(r"[0-9A-Za-z_-]{1,100}", re.ASCII)
_UNFINISHED = frozenset({"queued", "running"})


class HttpRemoteNodes:
    """`ports.transfer.nodes.RemoteNodes`.

    `token_of` gives the token for the origin of a URL.
    """

    def __init__(
        self,
        egress: Egress,
        *,
        token_of: Callable[[str], str | None],
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._egress = egress
        self._token_of = token_of
        self._pause, self._clock = pause, clock
        self._jobs = Remembered[tuple[str, bytes, bool], str](JOBS_REMEMBERED_MAX)

    def has_accounts(self, url: str) -> bool:
        """See the port."""
        found = self._asked(url, "info")
        return isinstance(found, Mapping) and found.get("isMultiTenant") is True

    def own_account(self, url: str) -> Name | None:
        """See the port."""
        found = self._asked(url, "accounts/me")
        return None if found is None else self._name(found, "accountName", url)

    def name_of(self, url: str, dataset: DatasetId) -> Name | None:
        """See the port."""
        found = self._asked(url, f"datasets/{quote(str(dataset), safe=':')}")
        return None if found is None else self._name(found, "datasetName", url)

    def send_ref(self, url: str, path: str, data: bytes) -> bool:
        """See the port."""
        base = without_smart_prefix(url).rstrip("/") + "/"
        token = self._token_of(base)
        headers = [("Authorization", f"Bearer {token}")] if token else []
        answer = self._egress.put(
            base + path, headers=[*headers, ("Content-Type", "text/plain")], body=[data], size=len(data)
        )
        if 400 <= answer.status <= 499:
            return False
        if not 200 <= answer.status <= 299:
            raise failed_answer(answer.status, url=self._shown(url), what="repository")
        return True

    def why(
        self, url: str, question: Mapping[str, object], *, with_key: bool, seconds_max: float, bytes_max: int
    ) -> object:
        """See the port."""
        target = without_smart_prefix(url).rstrip("/") + "/why"
        token = self._token_of(target) if with_key else None
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body, limit = json.dumps(question).encode(), SizeLimit(name=WHY_BYTES_LIMIT, bytes_max=bytes_max)
        known = self._known_job(url, body, with_key=with_key, seconds_max=seconds_max)
        if known is not None:
            return known
        asked = self._egress.exchange(target, headers=headers, body=body, total_s_max=seconds_max, limit=limit)
        try:
            with asked as answer:
                if answer.status not in (200, ACCEPTED):
                    raise failed_answer(answer.status, url=answer.url.shown, what="records")
                is_queued, text = answer.status == ACCEPTED, answer.read()
        except Indeterminate as error:  # a question changes nothing
            raise Determinate(error.message, stage=error.stage) from None
        value = self._json(text, url)
        if not is_queued:
            return value
        job = _member(value, "job", "id")
        if not isinstance(job, str) or _JOB.fullmatch(job) is None:
            raise CorruptedSource(f"{self._shown(url)} works on the answer as a job that it does not name")
        self._jobs.put((url, body, with_key), job)
        return QueuedAnswer(job=job)

    def queued_why(
        self,
        url: str,
        queued: QueuedAnswer,
        *,
        with_key: bool,
        seconds_max: float,
        bytes_max: int,
        waiting: Callable[[], None],
    ) -> object | None:
        """See the port."""
        until, pause_s = self._clock() + seconds_max, LOOK_EVERY_S

        def left_s() -> float:
            return until - self._clock()

        while (job := self._job(url, queued.job, with_key=with_key, seconds_max=max(left_s(), 1.0))) is not None:
            if job.get("status") not in _UNFINISHED:
                break
            waiting()
            if left_s() <= 0:
                return None
            self._pause(min(pause_s, max(left_s(), 0.0)))
            pause_s = min(pause_s * 1.5, LOOK_EVERY_S_MAX)
        if job is None or job.get("status") != "succeeded":
            raise self._failed(url, job)
        limit = SizeLimit(name=WHY_BYTES_LIMIT, bytes_max=bytes_max)
        with self._looked(url, f"{queued.job}/answer", with_key, max(left_s(), 1.0), limit) as answer:
            if answer.status != 200:
                raise failed_answer(answer.status, url=answer.url.shown, what="answer")
            text = answer.read()
        value: object = self._json(text, url)
        return value

    def _known_job(self, url: str, body: bytes, *, with_key: bool, seconds_max: float) -> QueuedAnswer | None:
        """The job of an earlier question of these words, if it is of use."""
        job = self._jobs.get((url, body, with_key))
        if job is None:
            return None
        found = self._job(url, job, with_key=with_key, seconds_max=seconds_max)
        if found is not None and found.get("status") in _UNFINISHED:
            return QueuedAnswer(job=job)
        # An answer is given once: who asks again after that wants to know how it is now.
        self._jobs.pop((url, body, with_key))
        return QueuedAnswer(job=job) if found is not None and found.get("status") == "succeeded" else None

    def _job(self, url: str, job: str, *, with_key: bool, seconds_max: float) -> Mapping[str, Any] | None:
        """What the other node says of a job; None where it shows none."""
        limit = SizeLimit(name="answer_bytes_max", bytes_max=ANSWER_BYTES_MAX)
        with self._looked(url, job, with_key, seconds_max, limit) as answer:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise failed_answer(answer.status, url=answer.url.shown, what="job")
            text = answer.read()
        found = self._json(text, url)
        if not isinstance(found, Mapping):
            raise CorruptedSource(f"{self._shown(url)} says nothing of its job {job}")
        return found

    def _looked(
        self, url: str, path: str, with_key: bool, seconds_max: float, limit: SizeLimit
    ) -> AbstractContextManager[Answer]:
        """GET below the jobs of the node that a dataset is on."""
        node, _, _ = without_smart_prefix(url).rstrip("/").rsplit("/", 2)
        target = f"{node}/jobs/{path}"
        token = self._token_of(target) if with_key else None
        headers = [("Authorization", f"Bearer {token}")] if token else []
        return self._egress.get(target, headers=headers, limit=limit, total_s_max=seconds_max)

    def _failed(self, url: str, job: Mapping[str, Any] | None) -> OdfError:
        shown, error = self._shown(url), None if job is None else job.get("error")
        status, said = (_member(error, name) for name in ("status", "message"))
        if job is None or not isinstance(status, int) or not isinstance(said, str):
            return Determinate(f"{shown} did not finish its job for the answer")
        return failed_answer(status, url=shown, what="records", said=said[:500])

    def _json(self, text: bytes, url: str) -> Any:
        try:
            return json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise CorruptedSource(f"{self._shown(url)} answered with no JSON") from None

    def has_key(self, url: str) -> bool:
        """See the port."""
        return self._token_of(without_smart_prefix(url)) is not None

    def search(self, url: str, words: str, *, limit: int) -> Sequence[FoundDataset]:
        """See the port."""
        asked = urlencode({"q": words, "limit": str(min(limit, 100))} if words else {"limit": str(min(limit, 100))})
        found = self._asked(url, f"datasets?{asked}", by_account=True)
        listed = found.get("datasets") if isinstance(found, Mapping) else None
        if not isinstance(listed, list):
            raise CorruptedSource(
                f"{self._shown(url)} lists no datasets", hint="is it a node? A plain web folder cannot be searched"
            )
        return [
            _found(each) for each in listed[:limit] if isinstance(each, Mapping) and isinstance(each.get("alias"), str)
        ]

    def _asked(self, url: str, path: str, *, by_account: bool = False) -> Any:
        """The JSON value of an answer 200.

        None for a refusal or an absence (4xx), which says nothing of the node. Raises Unauthenticated for a token that is not valid there,
        if the answer depends on the account.
        """
        base = without_smart_prefix(url).rstrip("/") + "/"
        token = self._token_of(base)
        headers = [("Authorization", f"Bearer {token}")] if token else []
        limit = SizeLimit(name="answer_bytes_max", bytes_max=ANSWER_BYTES_MAX)
        with self._egress.get(base + path, headers=headers, limit=limit) as answer:
            if answer.status == 401 and by_account:
                shown = self._shown(base)
                raise Unauthenticated(f"{shown} wants a valid token", hint=login_hint(shown))
            if 400 <= answer.status <= 499:
                return None
            if answer.status != 200:
                raise failed_answer(answer.status, url=answer.url.shown, what="repository")
            body = answer.read()
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise CorruptedSource(f"{self._shown(url)} answered {path.partition('?')[0]} with no JSON") from None

    def _name(self, found: Any, member: str, url: str) -> Name:
        text = found.get(member) if isinstance(found, Mapping) else None
        try:
            return parse_name(text if isinstance(text, str) else "")
        except InvalidName:
            raise CorruptedSource(f"{self._shown(url)} answered with no name in {member}") from None

    @staticmethod
    def _shown(url: str) -> str:
        return parse_http_url(without_smart_prefix(url)).shown


def _member(value: Any, *path: str) -> Any:
    """A member of members; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def _found(each: Mapping[str, Any]) -> FoundDataset:
    texts = {name: each.get(name) if isinstance(each.get(name), str) else None for name in ("id", "kind")}
    return FoundDataset(alias=each["alias"][:300], id=texts["id"], kind=texts["kind"])
