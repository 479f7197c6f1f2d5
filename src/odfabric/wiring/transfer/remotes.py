"""Remote datasets of every kind of URL behind one port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.linked_objects import HttpLinkedObjects
from odfabric.adapters.http.partial_downloads import PartialDownloads
from odfabric.adapters.http.remote_dataset import HttpRemoteDatasets
from odfabric.adapters.http.remote_nodes import HttpRemoteNodes
from odfabric.adapters.local_fs.remote_folder import FolderRemoteDatasets
from odfabric.adapters.local_fs.remote_store import FolderRemoteStores
from odfabric.adapters.stored_datasets.destination import StoredDestinations
from odfabric.adapters.stored_datasets.remote import StoredRemoteDatasets
from odfabric.errors import InvalidRequest, Place, UnsupportedProtocol
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.sources.egress import RemoteDataset, RemoteDatasets
from odfabric.ports.transfer.conversations import Conversation, Conversations, LinkedObjects
from odfabric.ports.transfer.destinations import Destinations, RemoteStores
from odfabric.ports.transfer.nodes import RemoteNodes
from odfabric.settings import Settings

PARTIAL_FOLDER = "partial"
"""Folder of the workspace for downloads that broke off."""
BUCKET_SCHEMES = ("s3", "s3+http", "s3+https")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What stands for other nodes, folders and buckets."""

    remotes: RemotesByScheme
    destinations: Destinations
    stores: Mapping[str, RemoteStores]
    nodes: RemoteNodes
    conversations: Conversations
    linked_objects: LinkedObjects


def open_elsewhere(settings: Settings, egress: Egress, closing: ExitStack) -> Elsewhere:
    """Connections are closed with `closing`."""
    anywhere = settings.poll_anywhere
    over_http = HttpRemoteDatasets(
        egress,
        block_bytes_max=settings.block_bytes_max,
        resumes_max=settings.transfer_resumes_max,
        partials=PartialDownloads(
            settings.workspace / PARTIAL_FOLDER,
            files_max=settings.partial_downloads_max,
            age_s_max=settings.partial_download_age_s_max,
        ),
    )
    in_folder = FolderRemoteDatasets(
        None if anywhere else settings.poll_folder, anywhere=anywhere, block_bytes_max=settings.block_bytes_max
    )
    folders = FolderRemoteStores(
        reads=None if anywhere else settings.poll_folder,
        writes=None if anywhere else settings.push_folder,
        anywhere=anywhere,
    )
    buckets = BucketsOnDemand(settings, egress, closing)
    in_bucket = StoredRemoteDatasets(buckets, block_bytes_max=settings.block_bytes_max)
    remotes = RemotesByScheme(
        {
            **dict.fromkeys(("http", "https", "odf+http", "odf+https"), over_http),
            **dict.fromkeys(BUCKET_SCHEMES, in_bucket),
            "file": in_folder,
        },
        tokens={origin: token.get_secret_value() for origin, token in settings.remote_tokens.items()},
    )
    stores: dict[str, RemoteStores] = {"file": folders, **dict.fromkeys(BUCKET_SCHEMES, buckets)}
    return Elsewhere(
        remotes=remotes,
        destinations=StoredDestinations(
            stores, block_bytes_max=settings.block_bytes_max, at_once=settings.transfers_at_once
        ),
        stores=stores,
        nodes=HttpRemoteNodes(egress, token_of=remotes.token_of),
        conversations=ConversationsOnDemand(settings, egress, remotes.token_of),
        linked_objects=HttpLinkedObjects(egress),
    )


class ConversationsOnDemand:
    """Conversations over WebSockets, whose library is loaded by the first one."""

    def __init__(self, settings: Settings, egress: Egress, token_of: Callable[[str], str | None]) -> None:
        self._settings = settings
        self._egress = egress
        self._token_of = token_of
        self._lock = threading.Lock()
        self._opened: Conversations | None = None

    def open(self, url: str, verb: Literal["pull", "push"]) -> AbstractContextManager[Conversation]:
        """See the port."""
        from odfabric.adapters.websocket.conversations import WebSocketConversations

        with self._lock:
            if self._opened is None:
                self._opened = WebSocketConversations(
                    self._egress.connections(self._settings.egress_ports),
                    token_of=self._token_of,
                    ssl_context=self._egress.ssl_context,
                    message_bytes_max=self._settings.smart_message_bytes_max,
                    connect_s_max=self._egress.limits.connect_s_max,
                    say_s_max=self._settings.smart_objects_wait_s_max,
                )
        return self._opened.open(url, verb)


class BucketsOnDemand:
    """Buckets elsewhere.

    The client of S3 is loaded by the first use: it takes longer to load than most commands run.
    """

    def __init__(self, settings: Settings, egress: Egress, closing: ExitStack) -> None:
        self._settings = settings
        self._egress = egress
        self._closing = closing
        self._lock = threading.Lock()
        self._opened: RemoteStores | None = None

    def open(self, url: str, *, writes: bool) -> ObjectStore:
        """See the port."""
        return self._buckets().open(url, writes=writes)

    def datasets(self, url: str, *, limit: int) -> Sequence[str]:
        """See the port."""
        return self._buckets().datasets(url, limit=limit)

    def _buckets(self) -> RemoteStores:
        from odfabric.adapters.s3.guarded import AnswerPace
        from odfabric.adapters.s3.remote_stores import BucketKeys, S3RemoteStores

        settings = self._settings
        with self._lock:
            if self._opened is None:
                opened = S3RemoteStores(
                    self._egress.connections(settings.egress_ports),
                    keys={
                        place: BucketKeys(
                            access_key=keys.access_key.get_secret_value(),
                            secret_key=keys.secret_key.get_secret_value(),
                            region=keys.region,
                        )
                        for place, keys in settings.remote_s3_keys.items()
                    },
                    own_keys=settings.remote_s3_own_keys,
                    connect_s_max=settings.s3_connect_s_max,
                    read_s_max=settings.s3_read_s_max,
                    attempts_max=settings.s3_attempts_max,
                    names_max=settings.remote_names_max,
                    pace=AnswerPace(
                        total_s_max=settings.egress_total_s_max,
                        window_s=settings.egress_rate_window_s,
                        bytes_per_s_min=settings.egress_bytes_per_s_min,
                    ),
                )
                self._closing.callback(opened.close)
                self._opened = opened
            return self._opened


class RemotesByScheme:
    """Chooses the adapter by the URL's scheme, and the token by its origin.

    A token goes nowhere else.
    """

    def __init__(self, by_scheme: Mapping[str, RemoteDatasets], *, tokens: Mapping[str, str]) -> None:
        self._by_scheme = by_scheme
        self._tokens = {origin.rstrip("/").lower(): token for origin, token in tokens.items()}

    def token_of(self, url: str) -> str | None:
        """The token for the origin of a URL."""
        parts = urlsplit(url)
        return self._tokens.get(f"{parts.scheme.lower().removeprefix('odf+')}://{parts.netloc.lower()}")

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """See the port."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InvalidRequest(f"not a URL: {error}", place=Place(field="url")) from None
        adapter = self._by_scheme.get(parts.scheme.lower())
        if adapter is None:
            schemes = ", ".join(sorted(self._by_scheme))
            raise UnsupportedProtocol(
                f"datasets cannot be pulled from {parts.scheme or 'such'} URLs",
                place=Place(field="url"),
                hint=f"use one of {schemes}",
            )
        return adapter.open(url, token=token or self.token_of(url))
