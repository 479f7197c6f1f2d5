"""`./odf` makes its environment on first use, once, wherever it is called from."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of which nobody has called anything yet.

    A space in its path, as people have them.
    """
    root = tmp_path_factory.mktemp("first use") / "odfabric"
    ignore = shutil.ignore_patterns("__pycache__", "tests", ".*", "*.egg-info")
    for part in ("src", "services", "locks"):
        shutil.copytree(ROOT / part, root / part, ignore=ignore)
    shutil.copy(ROOT / "odf", root / "odf")
    return root


def start(command: Path, cwd: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(command), "--help"],
        cwd=cwd,
        env={**os.environ, "ODF_PYTHON": sys.executable, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_concurrent_first_calls_from_elsewhere_make_one_environment(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "odf"
    link.symlink_to(checkout / "odf")
    calls = [start(link, tmp_path), start(checkout / "odf", tmp_path)]
    answers = [(*call.communicate(timeout=280), call.returncode) for call in calls]
    for out, err, code in answers:
        assert code == 0, err
        assert "Usage" in out
    assert sum(err.count("making the environment") for _, err, _ in answers) == 1

    out, err = start(link, tmp_path).communicate(timeout=60)
    assert ("Usage" in out, err) == (True, ""), "the second use says and makes nothing"


def test_a_missing_python_is_named_before_anything_is_made(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    shutil.copy(ROOT / "odf", tmp_path / "odf")
    call = start(tmp_path / "odf", tmp_path, ODF_PYTHON=str(tmp_path / "no-python"))
    out, err = call.communicate(timeout=60)
    assert (call.returncode, out) == (2, "")
    assert "needs Python 3.11" in err
    assert not (tmp_path / ".odf").exists()
