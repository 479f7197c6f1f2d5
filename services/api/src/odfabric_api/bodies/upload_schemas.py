"""Answers of the routes of resumable uploads."""

from __future__ import annotations

from pydantic import Field

from odfabric_api.bodies.schemas import Answer


class UploadView(Answer):
    """An upload in chunks as it is now."""

    id: str
    offset: int = Field(description="Bytes that are stored; the next chunk begins here")
    size: int = Field(description="Bytes of the whole file")
    complete: bool
    job: str | None = Field(description="The job that took it, once it was pushed")
    expires_at: str = Field(alias="expiresAt")
    chunk_bytes_max: int = Field(alias="chunkBytesMax", description="Largest chunk")
    part_bytes: int | None = Field(
        alias="partBytes", description="Bytes of each part but the last one, of an upload in parts; null in chunks"
    )


class UploadPart(Answer):
    """A part of an upload: where its bytes go, or that they are there."""

    number: int
    offset: int = Field(description="Where its bytes begin in the file")
    size: int
    tag: str | None = Field(description="Its entity tag if it is there")
    url: str | None = Field(description="Where to PUT it if it is missing")
    url_expires_at: str | None = Field(alias="urlExpiresAt")


class UploadPartsView(Answer):
    """Parts of an upload, by number."""

    count: int = Field(description="Parts of the whole file")
    part_bytes: int = Field(alias="partBytes")
    parts: list[UploadPart]
    next: int | None = Field(description="`first` of the next request, null after the last part")
