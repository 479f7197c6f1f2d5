"""Where a drill's node keeps its data: the same drills run on each kind.

A place can be sent to another process. What makes places is a kind: it knows how to make one, to copy one in which something has
happened, and to lose its database; on servers also to clear away what is no longer needed.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from odfabric.adapters.sql.upgrade import upgrade
from tests.support.servers.postgres import PostgresServer, sqlalchemy_url
from tests.support.servers.s3 import S3Server

DATABASE_FILE = "odf.sqlite3"


@dataclass(frozen=True)
class Place:
    """A workspace, and the settings that name what lies elsewhere."""

    workspace: Path
    settings: Mapping[str, object] = field(default_factory=dict)


class Places(Protocol):
    """A kind of place."""

    def new(self, folder: Path) -> Place:
        """One in which nothing is, with its workspace in `folder`."""

    def copy(self, place: Place, folder: Path) -> Place:
        """One that has all that another has; no process uses that one."""

    def lose_database(self, place: Place) -> Place:
        """The same without its database."""


@dataclass(frozen=True)
class InFolder:
    """SQLite and objects in the workspace."""

    settings: Mapping[str, object] = field(default_factory=dict)

    def new(self, folder: Path) -> Place:
        return Place(folder / "w", self.settings)

    def copy(self, place: Place, folder: Path) -> Place:
        shutil.copytree(place.workspace, folder / "w")
        return replace(place, workspace=folder / "w")

    def lose_database(self, place: Place) -> Place:
        for file in place.workspace.glob(f"{DATABASE_FILE}*"):
            file.unlink()
        return place


@dataclass(frozen=True)
class InBucket(InFolder):
    """SQLite in the workspace, objects in a bucket, each place below its prefix."""

    s3: S3Server | None = None
    bucket: str = ""
    made: list[Place] = field(default_factory=list, repr=False)
    """Places that have something on servers."""

    def new(self, folder: Path) -> Place:
        return self._below_new_prefix(super().new(folder))

    def copy(self, place: Place, folder: Path) -> Place:
        assert self.s3 is not None
        copied = self._below_new_prefix(super().copy(place, folder))
        client = self.s3.client()
        before, after = _prefix_of(place), _prefix_of(copied)
        for keys in self._pages_of_keys(client, before):
            for key in keys:
                source = {"Bucket": self.bucket, "Key": key}
                client.copy_object(Bucket=self.bucket, Key=after + key.removeprefix(before), CopySource=source)
        return copied

    def clear(self, folder: Path) -> None:
        """Take from the servers what places in `folder` have there.

        No process uses them any more.
        """
        assert self.s3 is not None
        cleared = self._made_in(folder)
        self.made[:] = [place for place in self.made if place not in cleared]
        client = self.s3.client()
        for prefix in {_prefix_of(place) for place in cleared}:
            for keys in self._pages_of_keys(client, prefix):
                doomed = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
                answer = client.delete_objects(Bucket=self.bucket, Delete=doomed)
                assert not answer.get("Errors")

    def _made_in(self, folder: Path) -> list[Place]:
        return [place for place in self.made if place.workspace.is_relative_to(folder)]

    def _pages_of_keys(self, client: Any, prefix: str) -> Iterator[list[str]]:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            if found := page.get("Contents"):
                yield [entry["Key"] for entry in found]

    def _below_new_prefix(self, place: Place) -> Place:
        assert self.s3 is not None
        access: dict[str, object] = {
            "objects_url": f"s3://{self.bucket}/{uuid.uuid4().hex}",
            "s3_endpoint_url": self.s3.endpoint,
            "s3_public_endpoint_url": self.s3.endpoint,
            "s3_access_key": self.s3.access_key,
            "s3_secret_key": self.s3.secret_key,
        }
        # A copy has no part in the database of the place that it is a copy of.
        own = {name: value for name, value in place.settings.items() if name != "database_url"}
        self.made.append(replace(place, settings={**own, **access}))
        return self.made[-1]


@dataclass(frozen=True)
class OnServers(InBucket):
    """PostgreSQL and a bucket."""

    postgres: PostgresServer | None = None
    migrated: str = ""
    """Name of a database with all migrations, of which copies are made."""

    def new(self, folder: Path) -> Place:
        return self._in_database(super().new(folder), like=self.migrated)

    def copy(self, place: Place, folder: Path) -> Place:
        name = str(place.settings["database_url"]).rpartition("/")[2]
        return self._in_database(super().copy(place, folder), like=name)

    def lose_database(self, place: Place) -> Place:
        return self._in_database(place, like=self.migrated)

    def clear(self, folder: Path) -> None:
        assert self.postgres is not None
        for url in {place.settings.get("database_url") for place in self._made_in(folder)} - {None}:
            self.postgres.drop_database(str(url))
        super().clear(folder)

    def _in_database(self, place: Place, *, like: str) -> Place:
        assert self.postgres is not None
        url = self.postgres.create_database(like=like)
        self.made.append(replace(place, settings={**place.settings, "database_url": url}))
        return self.made[-1]


def on_servers(postgres: PostgresServer, s3: S3Server, bucket: str) -> OnServers:
    """The kind, with a database of which copies are made."""
    url = postgres.create_database()
    upgrade(sqlalchemy_url(url))
    return OnServers(s3=s3, bucket=bucket, postgres=postgres, migrated=url.rpartition("/")[2])


def _prefix_of(place: Place) -> str:
    return str(place.settings["objects_url"]).split("/", 3)[3] + "/"
