"""Every command on the pages for users runs as written, in its order."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from odfabric.settings import Settings
from odfabric.wiring import engine_launcher, is_workspace
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.process_tree import end_at_last
from tests.support.servers.s3 import s3_server
from tests.support.turns import todays

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SYSTEM_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,3}Z *")
PAGE_S_MAX = 540
"""On two loaded cores; alone a page takes a minute."""
MARK = "=== block "
SHOWN = {
    "docs/howto/run-a-webhook.md": '{"replayed":1}',
    "docs/howto/give-a-service-a-token.md": "valid service token of local: gauge-7-next",
    "docs/howto/invite-a-colleague.md": "ruth on http://127.0.0.1:",
    "docs/howto/look-inside.md": "BROKEN  secret-files:  others may read node.token (mode 644)",
    "docs/howto/take-in-messy-files.md": "the dataset has a new column: `phase`",
    "docs/howto/travel-in-time.md": "harbour",
    "docs/howto/explain-a-value.md": "records checked: all as the answer says",
    "docs/howto/rewrite-history.md": "has the watermark: 2026-04-01T00:00:00Z",
    "docs/howto/verify-and-vouch.md": "checked recompute at ",
    "docs/howto/run-by-itself.md": "cron 30 6 * * 1-5 (Europe/Berlin)",
}
"""What a guide shows if it went well; others end with a pull that finds nothing new."""

SHOWS_TABLES = {"docs/howto/derive-data.md"}
"""Guides whose tables are results of their commands."""

HOWTO = [
    str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs/howto").glob("*.md")) if "```sh" in page.read_text()
]


def blocks_of(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text())


@pytest.fixture
def checkout(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with nothing but `./odf` in it.

    Engines of workspaces made there are ended afterwards.
    """
    (tmp_path / "odf").symlink_to(ROOT / "odf")
    yield tmp_path
    for folder in tmp_path.iterdir():
        settings = Settings(workspace=folder)
        if is_workspace(settings):
            engine_launcher(settings).stop()


@contextlib.contextmanager
def what_a_reader_has(page: str) -> Iterator[dict[str, str]]:
    """Variables that a page asks its reader to set.

    A bucket that everybody may read, and the keys to it.
    """
    if "$BUCKET" not in (ROOT / page).read_text():
        yield {}
        return
    with s3_server() as server:
        bucket = f"s3+{server.endpoint}/{server.create_public_bucket()}"
        keys = {bucket: {"access_key": server.access_key, "secret_key": server.secret_key}}
        yield {"BUCKET": bucket, "BUCKET_KEYS": json.dumps(keys)}


def run_page(
    page: str, folder: Path, engine_cache: Path, given: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, str]]:
    """Each block of a page with its output; `given` are variables of its reader.

    All blocks in one shell, which ends at the first failure.
    """
    blocks = blocks_of(page)
    script = "set -eu\n" + "".join(f"echo '{MARK}{number}'\n{block}" for number, block in enumerate(blocks))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
    environment |= {"ODF_ENGINE_CACHE": str(engine_cache), "ODF_ENGINE_JVM_OPTIONS": QUICK_JVM}
    environment["XDG_CONFIG_HOME"] = str(folder / "config")  # logins of a page are its own
    environment |= given
    out_file, err_file = folder / "page.out", folder / "page.err"
    with out_file.open("w") as out, err_file.open("w") as err:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: int | str = shell.wait(timeout=PAGE_S_MAX)
        except subprocess.TimeoutExpired:
            code = f"not done within {PAGE_S_MAX} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
            end_at_last(shell)
    assert code == 0, f"{page}: {code}\n{out_file.read_text()[-2000:]}\n{err_file.read_text()[-4000:]}"
    shown = [part.partition("\n")[2] for part in out_file.read_text().split(MARK)[1:]]
    assert len(shown) == len(blocks)
    return list(zip(blocks, shown, strict=True))


def shown_by(ran: list[tuple[str, str]], command: str) -> str:
    """Output of the one block that holds this command."""
    (out,) = [out for block, out in ran if command in block]
    return out


@pytest.mark.spark
@pytest.mark.timeout(PAGE_S_MAX + 60)
def test_the_readme_runs_as_written(checkout: Path, engine_cache: Path) -> None:
    ran = run_page("README.md", checkout, engine_cache)

    ingested = shown_by(ran, "cat > monday.ndjson")
    assert "4 rows added" in ingested
    assert "4 rows left out, for their keys are known" in ingested, "a repeated Ledger push adds nothing"
    assert json.loads(shown_by(ran, "sql -o json").splitlines()[-1]) == [{"n": 4}]

    corrected = shown_by(ran, "2026-03-02T09:55:00Z")
    printed = (ROOT / "README.md").read_text().partition("```text\n")[2].partition("```")[0]
    assert [SYSTEM_TIME.sub("T", line) for line in corrected.splitlines()[-4:]] == [
        SYSTEM_TIME.sub("T", line) for line in printed.splitlines()
    ], "the table on the page is the one that comes out"

    answers = shown_by(ran, "Idempotency-Key").splitlines()[-4:]
    created, first, repeated, queried = map(json.loads, answers)
    assert first["rows"] == 2
    assert repeated == first
    assert {row["station"]: row["warmest"] for row in queried["output"]["data"]} == {"harbour": 6.5, "hill": 1.5}
    assert created["alias"] == "local/stations"
    assert "odfabric API" in (checkout / "api.html").read_text()

    assert "dev.odfabric.dataset.head-moved" in shown_by(ran, "timeout 30")
    assert shown_by(ran, "verify readings readings.hourly").count("verified") == 2
    assert "3 new rows" in shown_by(ran, "--as hourly")
    assert shown_by(ran, "verify --no-replay").count("verified") == 2


@pytest.mark.spark
@pytest.mark.timeout(PAGE_S_MAX + 60)
@pytest.mark.parametrize("page", todays(HOWTO, parts=2))
def test_a_guide_runs_as_written(page: str, checkout: Path, engine_cache: Path) -> None:
    with what_a_reader_has(page) as given:
        ran = run_page(page, checkout, engine_cache, given)
    assert SHOWN.get(page, "up to date") in "".join(out for _, out in ran)
    if page in SHOWS_TABLES:
        shown = SYSTEM_TIME.sub("T", "".join(out for _, out in ran))
        tables = [SYSTEM_TIME.sub("T", table) for table in TABLE.findall((ROOT / page).read_text())]
        assert tables
        assert [table for table in tables if table not in shown] == []
