"""docs/settings.md from the table of settings.

`.odf/venv/bin/python -m odfabric.cli.settings_page > docs/settings.md`.

Owns the words around the table; names, defaults and descriptions are those of `odfabric.settings`.
"""

from __future__ import annotations

import sys

from odfabric.formats.operations.settings_table import settings_table
from odfabric.history_settings import HistorySettings
from odfabric.provenance_settings import ProvenanceSettings
from odfabric.settings import Settings
from odfabric.source_settings import SourceSettings
from odfabric.transfer_settings import TransferSettings

HEAD = """\
# Settings

Made from `src/odfabric/settings.py`, `history_settings.py`, `ingest_settings.py`, `provenance_settings.py`, `source_settings.py` and `transfer_settings.py` by `.odf/venv/bin/python -m odfabric.cli.settings_page > docs/settings.md`.

Each is an environment variable: `ODF_` and the name in capitals, such as `ODF_PUSH_WAIT_S_MAX=5`. Lists and maps are JSON.
What a limit refuses names the limit in its error; those of the engine are on a page of their own, [engine-settings.md](engine-settings.md). Beside these, `ODF_LOG_LEVEL` (default INFO) says how much api and worker log.

"""


def settings_page() -> str:
    """The page."""
    # The fields of a base class come first in the model; on the page places and the node itself do.
    others = (HistorySettings, ProvenanceSettings, SourceSettings, TransferSettings)
    inherited = {name for other in others for name in other.model_fields}
    fields = sorted(Settings.model_fields.items(), key=lambda field: field[0] in inherited)
    return HEAD + settings_table((name, field.default, field.description or "") for name, field in fields)


if __name__ == "__main__":
    sys.stdout.write(settings_page())
