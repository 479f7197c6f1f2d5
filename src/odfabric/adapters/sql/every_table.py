"""The metadata of all tables.

Anyone who looks at the whole database takes it from here, as `tables` alone has not all of them.
"""

from __future__ import annotations

from odfabric.adapters.sql.datasets.head_log_tables import head_log, heads_seen
from odfabric.adapters.sql.sources.variable_tables import variables
from odfabric.adapters.sql.tables import metadata
from odfabric.adapters.sql.transfer.repository_tables import remote_aliases, repositories

__all__ = ["head_log", "heads_seen", "metadata", "remote_aliases", "repositories", "variables"]
