"""Settings of other sources than push and HTTP poll, and of chunked uploads.

Owns names, defaults and descriptions; `odfabric.settings` has the rest of the table and is the place to read it from.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

MIB = 1024 * 1024
GIB = 1024 * MIB


class SourceSettings(BaseSettings):
    """What sources of other protocols and uploads in chunks may do."""

    mqtt_ports: tuple[int, ...] = Field((1883, 8883), description="Ports of public MQTT brokers that sources may reach")
    mqtt_tls_ports: tuple[int, ...] = Field((8883,), description="Ports on which MQTT brokers speak TLS")
    mqtt_messages_max: int = Field(
        10_000, ge=1, description="Messages of an MQTT source that one pull takes; the rest waits with the broker"
    )
    mqtt_idle_s: float = Field(
        1.0, gt=0, description="Pause between messages of an MQTT broker after which what has arrived is committed"
    )
    mqtt_batch_s_max: float = Field(
        60.0, gt=0, description="Longest wait for messages of an MQTT broker before what has arrived is committed"
    )
    mqtt_batch_bytes_max: int = Field(
        64 * MIB, ge=1, description="Payloads of MQTT that one commit takes, and so the largest message"
    )
    mqtt_keepalive_s: int = Field(
        1200,
        ge=1,
        le=65_535,
        description="Keep-alive that an MQTT broker is asked for; a commit has half as much again",
    )
    fetch_ftp: bool = Field(
        False,
        description="Whether sources may fetch `ftp://` and `ftps://` URLs; FTP sends user and password in the clear",
    )
    ftp_ports: tuple[int, ...] = Field((21, 990), description="Ports of public FTP servers that sources may reach")
    upload_bytes_max: int = Field(64 * GIB, ge=1, description="Largest file that is uploaded in chunks")
    upload_chunk_bytes_max: int = Field(64 * MIB, ge=1, description="Largest chunk of such an upload")
    upload_part_bytes: int = Field(
        32 * MIB,
        ge=5 * MIB,
        le=5 * GIB,
        description="Size of parts that clients send to the bucket themselves; larger where a file would have more than 10,000",
    )
    upload_part_links_max: int = Field(
        100, ge=1, le=1000, description="Most parts, with the URLs for them, in one answer"
    )
    upload_part_link_s: int = Field(
        3600,
        ge=60,
        le=7 * 24 * 3600,
        description="How long such a URL may be used; the client asks for another one then",
    )
    prepare_programs: tuple[str, ...] = Field(
        (),
        description='Programs that Pipe steps of sources may run, by absolute path, such as `["/usr/bin/jq"]`; none by default',
    )
    prepare_s_max: float = Field(
        600.0, gt=0, description="Longest run of such a program, by the clock and of a processor"
    )
    prepare_memory_bytes_max: int = Field(
        2 * GIB, ge=1, description="Memory of such a program; its output is bounded by `unpacked_bytes_max`"
    )
    prepare_unconfined: bool = Field(
        False,
        description="Run such programs also where the kernel can shut them in neither from files nor from the network; then their arguments, "
        "which owners of datasets choose, may name every file of the node",
    )
    container_engine: str | None = Field(
        None,
        pattern="^/",
        description="Command of the OCI engine that runs Container sources, by absolute path, such as `/usr/bin/podman`; unset = refused",
    )
    container_images: tuple[str, ...] = Field(
        (), description='Images that Container sources may run, with `*` for any characters, such as `["ghcr.io/me/*"]`'
    )
    container_network: str = Field(
        "none",
        pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="Network that such containers join; any other than `none` passes by the rules of `egress_allow`",
    )
    container_s_max: float = Field(3600.0, gt=0, description="Longest run of such a container")
    container_memory_bytes_max: int = Field(
        2 * GIB, ge=1, description="Memory of such a container; what it prints is bounded by `source_bytes_max`"
    )
