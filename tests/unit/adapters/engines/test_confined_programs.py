"""Programs that prepare data: what they may do, cannot do, and how they end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from odfabric.adapters.programs.confined import ConfinedPrograms, ProgramLimits, program_names
from odfabric.errors import Determinate, InvalidData, InvalidManifest, InvalidRequest, LimitExceeded
from tests.support.waiting import wait_until

SYSTEM = ("/bin/cat", "/bin/sh", "/usr/bin/env", "/usr/bin/tr")


def programs(**limits: object) -> ConfinedPrograms:
    return ConfinedPrograms(SYSTEM, ProgramLimits(**limits))  # type: ignore[arg-type]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"a,b\n1,2\n\0\xff")
    return path


def output(ran: ConfinedPrograms, command: list[str], source: Path) -> bytes:
    into = source.parent / "into"
    ran.run(command, source, into)
    data = into.read_bytes()
    into.unlink()
    return data


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_bytes_go_in_and_come_out(source: Path) -> None:
    assert output(programs(), ["cat"], source) == source.read_bytes()
    assert output(programs(), ["/usr/bin/tr", "a-z", "A-Z"], source) == source.read_bytes().upper()


def test_arguments_are_no_shell_text(source: Path) -> None:
    with pytest.raises(InvalidData, match="exit code 1"):
        output(programs(), ["cat", "; echo x"], source)


@pytest.mark.parametrize("command", [[], ["rm"], ["../cat"], ["/bin/rm"], ["cat\0x"], ["cat", "\0"]])
def test_what_the_operator_does_not_name_is_refused(source: Path, command: list[str]) -> None:
    with pytest.raises(InvalidManifest):
        output(programs(), command, source)
    assert not (source.parent / "into").exists()


def test_names_are_paths_and_their_last_parts() -> None:
    names = program_names(["/bin/a", "/usr/bin/b", "/opt/b"])
    assert names == {"/bin/a": "/bin/a", "a": "/bin/a", "/usr/bin/b": "/usr/bin/b", "/opt/b": "/opt/b"}
    with pytest.raises(InvalidRequest):
        program_names(["cat"])


def test_a_failure_says_what_the_program_said(source: Path) -> None:
    with pytest.raises(InvalidData, match=r"exit code 3\): bad line 7"):
        output(programs(), shell("echo bad line 7 >&2; echo part; exit 3"), source)
    with pytest.raises(InvalidData) as caught:
        output(programs(), shell("yes x | head -c 1000000 >&2; exit 1"), source)
    assert len(str(caught.value)) < 3000
    with pytest.raises(InvalidData, match="signal 15"):
        output(programs(), shell("kill $$"), source)
    assert not (source.parent / "into").exists()


def test_there_is_no_environment_and_no_secret_file(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_S3_SECRET_KEY", "very-secret")
    assert b"very-secret" not in output(programs(), ["env"], source)
    for path in (source, Path("/etc/passwd"), Path("/proc/1/environ"), Path(__file__)):
        with pytest.raises(InvalidData, match="ermission denied"):
            output(programs(), ["cat", str(path)], source)


def test_nothing_can_be_written_but_the_output(source: Path) -> None:
    for place in (source.parent / "made", Path("/tmp/odf-made"), Path("made")):
        with pytest.raises(InvalidData):
            output(programs(), shell(f"echo x > {place}"), source)
        assert not place.exists()


def test_there_is_no_network(source: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        ran = ConfinedPrograms(["/bin/bash"], ProgramLimits())
        with pytest.raises(InvalidData, match=r"(?i)connect|unreachable|denied"):
            output(ran, ["bash", "-c", script], source)


def test_time_is_bounded_and_nothing_is_left(source: Path) -> None:
    mark = f"{os.getpid()}.25"
    with pytest.raises(LimitExceeded) as caught:
        output(programs(total_s_max=1.0), shell(f"setsid sleep {mark} & sleep {mark}"), source)
    assert caught.value.limit == "prepare_s_max"
    wait_until(lambda: not running(mark), deadline_s=10, what="the end of every process")
    output(programs(), shell(f"setsid sleep {mark} >/dev/null 2>&1 & true"), source)
    wait_until(lambda: not running(mark), deadline_s=10, what="the end of what a program has left behind")


def running(mark: str) -> bool:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes())
        except OSError:
            continue
    return any(command.startswith(b"sleep\0" + mark.encode()) for command in found)


def test_output_and_memory_are_bounded(source: Path) -> None:
    with pytest.raises(LimitExceeded) as caught:
        output(programs(output_bytes_max=100_000), shell("yes"), source)
    assert caught.value.limit == "unpacked_bytes_max"
    assert len(output(programs(output_bytes_max=100_000), shell("yes | head -c 100000"), source)) == 100_000
    with pytest.raises(InvalidData):
        output(
            programs(memory_bytes_max=100_000_000),
            shell("x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo $x"),
            source,
        )


def test_a_program_that_is_not_installed_is_the_operators_matter(source: Path) -> None:
    ran = ConfinedPrograms(["/usr/bin/no-such-program"], ProgramLimits())
    with pytest.raises(Determinate, match="cannot be run"):
        output(ran, ["no-such-program"], source)
