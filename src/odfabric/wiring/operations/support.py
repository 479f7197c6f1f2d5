"""`odf support-bundle`: which files it has, and which secrets are hidden in them.

Like the doctor it opens no node, so that it works when that fails.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs.duties import SqlDuties
from odfabric.adapters.sql.jobs.flows import SqlFlows
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.probe import SqlProbe
from odfabric.adapters.system.bounded import ThreadBounded
from odfabric.adapters.system.clock import SystemClock
from odfabric.domain.people.redaction import Redaction
from odfabric.formats.secrets.sealed_form import KEY_BYTES
from odfabric.settings import Settings
from odfabric.usecases.doctor.support_bundle import Part, gather, job_value, run_value
from odfabric.wiring.monitoring.metrics import DutiesCollector, FlowsCollector, metrics_text, registry_of
from odfabric.wiring.operations.doctor import findings_of, on_database, versions
from odfabric.wiring.operations.settings_in_force import settings_in_force
from odfabric.wiring.places.identity import KEY_FILE, TOKEN_FILE
from odfabric.wiring.upkeep.duties import DutyVerbs

LOGS = ("api.log", "worker.log")
ENGINE_LOG = "engine.log"
_TOKEN_FILES = (TOKEN_FILE, "engine.token")
_HEADING = """\
Support bundle of an odfabric node, made at {now}.

doctor.json    findings of `odf doctor`          versions.json  the node, Python, libraries
settings.json  settings in force, without secrets tables.json    rows and bytes of tables
jobs.json      the newest jobs, with errors       flows.json     the newest runs of flows
duties.json    what workers do for the node       metrics.txt    metrics that the database tells
*.log          the last lines of logs

It holds no rows of datasets, no queries, no secrets, and of URLs no more than the host. Names of datasets may be in logs: look
through the files before you send them.
"""


def support_files(settings: Settings, *, with_engine_log: bool = False) -> Mapping[str, bytes]:
    """All files by name; never raises for what is wrong with the node.

    The engine's log may quote rows, so it is left out unless wanted.
    """
    logs = (*LOGS, ENGINE_LOG) if with_engine_log else LOGS
    parts = [
        Part("README.txt", lambda: _HEADING.format(now=SystemClock().now())),
        Part("doctor.json", lambda: _json([one.to_value() for one in findings_of(settings)])),
        Part("versions.json", lambda: _json({**versions(), "installed": _installed()})),
        Part("settings.json", lambda: _json(_settings(settings))),
        Part("tables.json", _of(settings, _tables)),
        Part("jobs.json", _of(settings, lambda database: _jobs(settings, database))),
        Part("flows.json", _of(settings, lambda database: _runs(settings, database))),
        Part("duties.json", _of(settings, _duties)),
        Part("metrics.txt", _of(settings, _metrics)),
        *(
            Part(name, _tail(settings.workspace / name, settings.support_file_bytes_max), is_log=True)
            for name in logs
            if (settings.workspace / name).exists()
        ),
    ]
    return gather(
        parts,
        redaction=Redaction(_secrets(settings)),
        bounded=ThreadBounded(),
        within_s=2 * settings.doctor_check_s_max,
        bytes_max=settings.support_file_bytes_max,
    )


def _settings(settings: Settings) -> Sequence[Mapping[str, object]]:
    return [
        {"variable": one.variable, "value": one.value, "unit": one.unit, "isDefault": one.is_default}
        for one in settings_in_force(settings)
    ]


def _of(settings: Settings, read: Callable[[Database], str]) -> Callable[[], str]:
    def prepared(database: Database) -> str:
        SqlProbe(database).demand_prepared()
        return read(database)

    return lambda: on_database(settings, prepared)


def _tables(database: Database) -> str:
    return _json({name: asdict(size) for name, size in SqlProbe(database).tables().items()})


def _jobs(settings: Settings, database: Database) -> str:
    return _json([job_value(job) for job in SqlJobs(database).page(limit=settings.support_rows_max)])


def _runs(settings: Settings, database: Database) -> str:
    return _json([run_value(run) for run in SqlFlows(database).runs(limit=settings.support_rows_max)])


def _duties(database: Database) -> str:
    seen = DutyVerbs(SqlDuties(database), SystemClock()).seen()
    return _json(
        [
            {
                "duty": each.duty.value,
                "state": each.state.value,
                "worker": each.report.worker if each.report else None,
                "at": str(each.report.at) if each.report else None,
                "error": each.report.error if each.report else None,
            }
            for each in seen
        ]
    )


def _metrics(database: Database) -> str:
    clock = SystemClock()
    registry = registry_of(
        SqlJobs(database), clock, FlowsCollector(SqlFlows(database), clock), DutiesCollector(SqlDuties(database), clock)
    )
    return metrics_text(registry).decode()


def _installed() -> Sequence[str]:
    return sorted({f"{each.name}=={each.version}" for each in distributions() if each.name})


def _tail(path: Path, bytes_max: int) -> Callable[[], str]:
    def read() -> str:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - bytes_max))
            lines = log.read(bytes_max).decode(errors="replace")
        # The first line may begin in the middle of a secret.
        return lines if path.stat().st_size <= bytes_max else lines.partition("\n")[2]

    return read


def _secrets(settings: Settings) -> Iterator[str]:
    """Every secret that this node knows outside its database."""
    yield from _declared(settings)
    for url in (settings.database_url, settings.redis_url):
        if url is not None:
            parts = urlsplit(url)
            yield from (unquote(secret) for secret in (parts.password,) if secret)
            yield from (value for pair in parts.query.split("&") if (value := unquote(pair.partition("=")[2])))
    files = [settings.workspace / name for name in _TOKEN_FILES]
    files += [settings.spark_secret_file] if settings.spark_secret_file else []
    for path in files:
        yield _read(path).decode(errors="replace").strip()
    keys = _read(settings.workspace / KEY_FILE)
    for start in range(0, len(keys), KEY_BYTES):
        key = keys[start : start + KEY_BYTES]
        yield from (key.hex(), base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode())


def _read(path: Path) -> bytes:
    """Nothing of a file that is not there.

    What cannot be read is in no file that can be.
    """
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _declared(value: object) -> Iterator[str]:
    """Texts of all secrets in settings, however deep."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _declared(getattr(value, name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _declared(inner)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
