"""Processes search for garbage rarely while they start, and as usual from then on."""

from __future__ import annotations

import subprocess
import sys

import pytest


def answered(question: str) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", question], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("process", ["odfabric_api", "odfabric_worker"])
def test_a_process_is_not_searched_while_it_imports(process: str) -> None:
    question = f"import gc, {process}.__main__; print(max(one['collections'] for one in gc.get_stats()))"
    assert int(answered(question)) < 100


def test_what_is_there_is_kept_for_good_and_the_rest_is_searched_as_usual() -> None:
    question = (
        "import gc; usual = gc.get_threshold()\n"
        "from odfabric.garbage import collect_rarely, keep_for_good\n"
        "collect_rarely(); rarely = gc.get_threshold(); keep_for_good()\n"
        "print(rarely[0] > 10 * usual[0], gc.get_threshold() == usual, gc.get_freeze_count() > 1000)"
    )
    assert answered(question) == "True True True"
