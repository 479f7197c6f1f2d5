"""Where polled data may come from on this node, by its settings."""

from __future__ import annotations

import os
from pathlib import Path

from odfabric.adapters.container.engine import CliContainerSource, ContainerLimits
from odfabric.adapters.ftp.fetch import FtpFetch, FtpLimits
from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.fetch import HttpFetch
from odfabric.adapters.local_fs.archives import ArchiveLimits, ArchivePreparation
from odfabric.adapters.local_fs.poll_folder import PollFolder
from odfabric.adapters.local_fs.savepoints import FolderSavepoints
from odfabric.adapters.mqtt.messages import MqttLimits, PahoMessageSource
from odfabric.adapters.programs.confined import ConfinedPrograms, ProgramLimits, program_names
from odfabric.domain.sources.runnable_sources import PermittedSources
from odfabric.ports.sources.egress import HttpSource
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.settings import Settings
from odfabric.usecases.datasets.dataset_variables import VariableVerbs
from odfabric.usecases.polling.poll_source import PollingPorts
from odfabric.usecases.rights.access import Access
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.sources.url_sources import SourcesByScheme


def permitted_sources(settings: Settings) -> PermittedSources:
    """The kinds of sources that the operator permits."""
    usual = PermittedSources()
    schemes = usual.schemes | {"ftp", "ftps"} if settings.fetch_ftp else usual.schemes
    programs = frozenset(program_names(settings.prepare_programs))
    return PermittedSources(
        schemes=schemes,
        mqtt=True,
        container=settings.container_engine is not None and bool(settings.container_images),
        programs=programs,
    )


def variable_verbs(ports: NodePorts, settings: Settings, *, access: Access) -> VariableVerbs:
    """Verbs of variables; of this process's environment only what is allowed.

    Only what the operator names is shared.
    """
    shared = {name: os.environ[name] for name in settings.source_environment if name in os.environ}
    return VariableVerbs(
        variables=ports.variables,
        access=access,
        clock=ports.clock,
        per_dataset_max=settings.variables_per_dataset_max,
        bytes_max=settings.variable_bytes_max,
        environment=shared,
    )


SAVEPOINTS_FOLDER = "savepoints"
"""Below the workspace: bodies of failed pulls."""


def folder_savepoints(settings: Settings) -> FolderSavepoints:
    """Bodies of failed pulls, in the workspace of this process."""
    return FolderSavepoints(
        settings.workspace / SAVEPOINTS_FOLDER,
        bytes_max=settings.savepoint_bytes_max,
        age_s_max=settings.savepoint_s_max,
    )


def polling_ports(settings: Settings, egress: Egress, savepoints: Savepoints) -> PollingPorts:
    """The ports of polling, over the guarded client and the poll folder."""
    return PollingPorts(
        http=_url_sources(settings, egress),
        files=PollFolder(
            settings.poll_folder, files_max=settings.poll_files_max, entries_max=settings.poll_entries_max
        ),
        files_of_user=lambda folder: PollFolder(
            None,
            anywhere=True,
            start=folder,
            files_max=settings.poll_files_max,
            entries_max=settings.poll_entries_max,
        ),
        messages=PahoMessageSource(
            egress.connections(settings.mqtt_ports),
            MqttLimits(
                connect_s_max=settings.egress_connect_s_max,
                idle_s=settings.mqtt_idle_s,
                batch_s_max=settings.mqtt_batch_s_max,
                batch_bytes_max=settings.mqtt_batch_bytes_max,
                keepalive_s=settings.mqtt_keepalive_s,
                tls_ports=settings.mqtt_tls_ports,
            ),
            egress.ssl_context,
        ),
        containers=_containers(settings),
        programs=ConfinedPrograms(
            settings.prepare_programs,
            ProgramLimits(
                total_s_max=settings.prepare_s_max,
                memory_bytes_max=settings.prepare_memory_bytes_max,
                output_bytes_max=settings.unpacked_bytes_max,
                unconfined=settings.prepare_unconfined,
            ),
        ),
        preparation=ArchivePreparation(
            ArchiveLimits(
                unpacked_bytes_max=settings.unpacked_bytes_max,
                unpack_ratio_max=settings.unpack_ratio_max,
                archive_entries_max=settings.archive_entries_max,
                source_bytes_max=settings.source_bytes_max,
            )
        ),
        savepoints=savepoints,
    )


def _containers(settings: Settings) -> CliContainerSource | None:
    if settings.container_engine is None:
        return None
    limits = ContainerLimits(
        total_s_max=settings.container_s_max,
        memory_bytes_max=settings.container_memory_bytes_max,
        output_bytes_max=settings.source_bytes_max,
        network=settings.container_network,
    )
    return CliContainerSource(Path(settings.container_engine), settings.container_images, limits)


def _url_sources(settings: Settings, egress: Egress) -> HttpSource:
    over_http = HttpFetch(egress, source_bytes_max=settings.source_bytes_max)
    if not settings.fetch_ftp:
        return SourcesByScheme(over_http, {})
    limits = FtpLimits(
        connect_s_max=settings.egress_connect_s_max,
        answer_s_max=settings.egress_answer_s_max,
        total_s_max=settings.egress_total_s_max,
        bytes_per_s_min=settings.egress_bytes_per_s_min,
        rate_window_s=settings.egress_rate_window_s,
        source_bytes_max=settings.source_bytes_max,
    )
    over_ftp = FtpFetch(egress.connections(settings.ftp_ports), limits, egress.ssl_context)
    return SourcesByScheme(over_http, {"ftp": over_ftp, "ftps": over_ftp})
