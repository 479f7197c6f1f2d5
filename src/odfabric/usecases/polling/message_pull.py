"""Fetch a broker's messages in batches: file, commit, acknowledgement.

Owns how many messages one pull takes. Invariant: a batch is acknowledged only after the commit of its rows, so a message that was received
is never lost; after a crash in between it comes again, and is ingested again unless the merge strategy knows it by its key. Not here:
committing (`usecases.polling.poll_source`), the protocol (`ports.sources.messages`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.sources.message_rows import check_messages, mqtt_client_id
from odfabric.domain.sources.polled_content import PolledContent
from odfabric.domain.sources.source_templates import Lookup, expand_template, without_secrets
from odfabric.errors import OdfError
from odfabric.model.metadata import SetPollingSource
from odfabric.model.source import FetchStepMqtt
from odfabric.ports.sources.messages import MessageBatch, MessageSource
from odfabric.usecases.polling.fetch_url import hash_of
from odfabric.usecases.polling.fetched import Fetched

FILE_NAME = "messages"
"""What users see as the file of a batch in errors; its line n is the n-th message."""


class MessagePull:
    """The messages of one pull, up to `messages_max` in all."""

    def __init__(
        self,
        source: SetPollingSource,
        step: FetchStepMqtt,
        messages: MessageSource,
        messages_max: int,
        lookup: Lookup,
    ) -> None:
        """Raises InvalidManifest for an unsuitable read step, NotFound for a variable.

        A read step that takes no messages, a variable without a value.
        """
        check_messages(step, source.read)
        password = expand_template(step.password or "", lookup, field="fetch.password")
        self._step = step if step.password is None else replace(step, password=password.text)
        self._secrets = password.secrets
        self._messages = messages
        self._left = messages_max
        self._batch: MessageBatch | None = None
        self.goes_on = True
        """Whether there may be another batch for this pull."""

    @contextmanager
    def next(self, state: ChainState, folder: Path) -> Iterator[Fetched | None]:
        """The next batch as a file in `folder`, None if nothing has arrived.

        The connection is open within the context.
        """
        try:
            with self._messages.receive(
                self._step,
                client_id=mqtt_client_id(state.dataset_id),
                ingested_before=_ingested_before(state),
                messages_max=self._left,
                into=folder / FILE_NAME,
            ) as self._batch:
                yield _fetched(self._batch, folder) if self._batch.count else None
        except OdfError as error:
            raise without_secrets(error, self._secrets) from None

    def taken(self) -> None:
        """Acknowledge the batch: its rows are committed.

        Raises Determinate: then it comes again.
        """
        assert self._batch is not None
        self._left -= self._batch.count
        self.goes_on = self._batch.more and self._left > 0
        self._batch.acknowledge()


def _fetched(batch: MessageBatch, folder: Path) -> Fetched:
    return Fetched(
        path=folder / FILE_NAME,
        name=FILE_NAME,
        source_state=None,
        event_time=None,
        polled=PolledContent(content=hash_of(folder / FILE_NAME)),
        remaining=int(batch.more),
    )


def _ingested_before(state: ChainState) -> bool:
    """Whether messages of the source as it is defined now are in the chain."""
    source, added = state.polling_source, state.add_data
    return source is not None and added is not None and added.sequence_number > source.sequence_number
