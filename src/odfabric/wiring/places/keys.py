"""The node's key: what is sealed with it, and how it is changed.

Owns the binding of ports that store secrets to the key file of the workspace, and the verbs that walk the sealed stores of the database
(`adapters.sql.sealed_columns`): sealing what an older release has kept in the clear, and rotation. Neither needs a whole node.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from odfabric.adapters.engine_process.launcher import ENGINE_CRASH_POINTS
from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.sealed.rows import SealedIntents, SealedSigningKeys, SealedSubscriptions, sealed_chains
from odfabric.adapters.sealed.variables import SealedVariables
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.scrub import demand_scrub, scrub
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.sql.upgrade import check_upgraded
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.adapters.unreliable.crash_points import CrashPoints
from odfabric.errors import Determinate
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.node.sealing import KeyRotation, SealedStore, Sealing
from odfabric.settings import Settings
from odfabric.usecases.maintenance.rotate_key import Listener, RotatedKey, has_plain, rotate_key, seal_plain
from odfabric.wiring.node_ports import NodePorts
from odfabric.wiring.places.database_place import database_place
from odfabric.wiring.places.identity import KEY_FILE

_log = logging.getLogger(__name__)


def node_sealing(settings: Settings) -> KeyFileSealing:
    """Sealing with the key file of the workspace."""
    return KeyFileSealing(
        settings.workspace / KEY_FILE, entropy=SystemEntropy(), wait_s_max=settings.key_file_wait_s_max
    )


def with_sealed_secrets(ports: NodePorts, intents: CommitIntents, sealing: Sealing) -> tuple[NodePorts, CommitIntents]:
    """The ports over those of the database, with what they store sealed."""
    chains = sealed_chains(ports.chains, sealing)
    sealed = replace(
        ports,
        chains=chains,
        subscriptions=SealedSubscriptions(ports.subscriptions, sealing),
        signing_keys=SealedSigningKeys(ports.signing_keys, sealing),
        variables=SealedVariables(ports.variables, sealing),
    )
    return sealed, SealedIntents(intents, sealing)


def seal_stored_secrets(settings: Settings) -> None:
    """Seal secrets that an older release stored in the clear.

    Also removes their old bytes from the database file. Safe in several processes at once.
    """
    with _database(settings) as database:
        stores = sealed_stores(database)
        if has_plain(stores, portion_max=settings.seal_portion_max):
            demand_scrub(database)
            seal_plain(stores, sealing=node_sealing(settings), portion_max=settings.seal_portion_max)
        _scrub(database)


def rotate_node_key(settings: Settings, *, listener: Listener) -> RotatedKey:
    """Give the node a new key.

    Raises InvalidRequest for a database that is not prepared, and what `rotate_key` raises.
    """
    with _database(settings) as database:
        check_upgraded(database)
        sealing = node_sealing(settings)
        stores, rotation = _armed(settings, sealed_stores(database), sealing)
        demand_scrub(database)
        rotated = rotate_key(
            stores,
            sealing=sealing,
            rotation=rotation,
            portion_max=settings.seal_portion_max,
            listener=listener,
        )
        _scrub(database)
    return rotated


def _armed(
    settings: Settings, stores: Sequence[SealedStore], rotation: KeyRotation
) -> tuple[Sequence[SealedStore], KeyRotation]:
    if settings.crash_at is None or settings.crash_at.partition("@")[0] in ENGINE_CRASH_POINTS:
        return stores, rotation
    armed = CrashPoints(settings.crash_at)
    return [armed.sealed_store(store) for store in stores], armed.node_key(rotation)


def _scrub(database: Database) -> None:
    """Remove old bytes from the file, or warn: the secrets are sealed by now."""
    try:
        scrub(database)
    except Determinate as error:
        _log.warning("%s; the next `odf init` or start of the node tries again", error.message)


@contextmanager
def _database(settings: Settings) -> Iterator[Database]:
    database = Database(database_place(settings), busy_s_max=settings.database_busy_s_max, connections_max=2)
    try:
        yield database
    finally:
        database.close()
