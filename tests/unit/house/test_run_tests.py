"""`./odf test` counts honestly: what was not checked did not pass."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from odfabric.cli.run_tests import (
    DAY,
    MISSING,
    TEST_STAGES,
    Counts,
    _call,
    _captured,
    _is_class_archive_made,
    count_report,
)
from tests.conftest import LONG_FILES, TESTS
from tests.support.turns import today, todays

ONE_OF_EACH = """
import pytest

def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("no server")
@pytest.mark.xfail(strict=True)
def test_fails_as_expected(): assert False
@pytest.mark.xfail(strict=True)
def test_passes_unexpectedly(): pass
@pytest.fixture
def broken(): raise RuntimeError("no server")
def test_has_no_server(broken): pass
"""


def test_skipped_and_broken_tests_count_as_failed(tmp_path: Path) -> None:
    (tmp_path / "test_one_of_each.py").write_text(ONE_OF_EACH)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir=.", f"--junit-xml={report}", "."]
    subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert count_report(report) == Counts(passed=2, failed=4)


def test_every_test_belongs_to_one_stage() -> None:
    expressions = [options[options.index("-m") + 1] for options in TEST_STAGES.values()]
    marks = ("spark", "acceptance", "alone", "perf")
    for chosen in product([False, True], repeat=len(marks)):
        held = dict(zip(marks, chosen, strict=True))
        stages = [one for one in expressions if eval(one, {}, held)]
        assert len(stages) == (0 if held["perf"] else 1), held


def test_long_files_are_known_by_their_names() -> None:
    assert [name for name in LONG_FILES if not (TESTS / name).is_file()] == []


def test_what_a_check_says_is_shown_beside_its_exit_code() -> None:
    code, said = _captured(("ruff", "no-such-command"))
    assert (code, "no-such-command" in said) == (2, True)
    code, said = _captured(("no-such-tool",))
    assert (code, "no-such-tool is missing" in said) == (MISSING, True)


@pytest.mark.parametrize("code", [0, 1])
def test_an_archive_that_cannot_be_made_is_a_failure(code: int) -> None:
    making = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    assert _is_class_archive_made(making) == (code == 0)


def test_a_stage_that_hangs_is_ended_and_failed(capfd: pytest.CaptureFixture[str]) -> None:
    hangs = "import faulthandler, threading; faulthandler.enable(); threading.Event().wait()"
    assert _call([sys.executable, "-c", hangs], wait_s_max=1.0) != 0
    told = capfd.readouterr()
    assert "did not end within 1 s" in told.out
    assert 'File "<string>", line 1' in told.err, "it does not say where the stage hung"


def test_all_stages_have_the_day_on_which_the_run_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DAY, "20786")
    assert today() == 20786
    assert todays(range(7), parts=3) == range(20786 % 3, 7, 3)
