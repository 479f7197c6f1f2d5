"""Containers by a stand-in engine command: the command built, its answers read."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from odfabric.adapters.container.engine import CliContainerSource, ContainerLimits, container_command
from odfabric.errors import Determinate, InvalidData, InvalidManifest, LimitExceeded
from odfabric.ports.sources.containers import ContainerAnswer, ContainerRun
from tests.support.engines import stand_in_engine

PATHS = {
    "ODF_NEW_ETAG_PATH": "/opt/odf/out/new-etag",
    "ODF_NEW_LAST_MODIFIED_PATH": "/opt/odf/out/new-last-modified",
    "ODF_NEW_HAS_MORE_DATA_PATH": "/opt/odf/out/new-has-more-data",
}


@dataclass
class StandIn:
    """The stand-in in a folder of its own."""

    folder: Path

    def image(self, script: str) -> None:
        (self.folder / "images").mkdir(exist_ok=True)
        (self.folder / "images" / "fetch:1").write_text(script)

    def fetch(
        self, into: Path, *, command: tuple[str, ...] = (), args: tuple[str, ...] = (), **limits: object
    ) -> ContainerAnswer:
        source = CliContainerSource(self.folder / "engine", ["ghcr.io/me/*"], ContainerLimits(**limits))  # type: ignore[arg-type]
        run = ContainerRun(
            image="ghcr.io/me/fetch:1", command=command, args=args, environment={**PATHS, "KEY": "a b='c'"}
        )
        return source.fetch(run, into)

    def asked(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / "asked").read_text())
        return found


@pytest.fixture
def engine(tmp_path: Path) -> StandIn:
    folder = tmp_path / "engine-folder"
    folder.mkdir()
    shutil.copy(stand_in_engine.__file__, folder / "stand_in.py")
    (folder / "engine").write_text(f'#!/bin/sh\nexec {sys.executable} -I {folder}/stand_in.py "$@"\n')
    (folder / "engine").chmod(0o755)
    return StandIn(folder)


def test_the_command_shuts_the_container_in_and_hides_its_variables() -> None:
    run = ContainerRun(image="img", command=("sh", "-c"), args=("--privileged", "x y"), environment={"SECRET": "word"})
    limits = ContainerLimits(memory_bytes_max=1000, processes_max=7)
    command = container_command(Path("/usr/bin/podman"), run, limits, name="n", variables=Path("/v"), out=Path("/o"))
    assert command[:2] == ["/usr/bin/podman", "run"]
    before, after = command[: command.index("img")], command[command.index("img") + 1 :]
    assert {
        "--rm",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--memory=1000",
        "--memory-swap=1000",
        "--pids-limit=7",
        "--env-file=/v",
        "--volume=/o:/opt/odf/out",
        "--entrypoint=sh",
    } <= set(before)
    assert after == ["-c", "--privileged", "x y"]
    assert not any("word" in part for part in command)


def test_what_a_container_prints_and_writes_comes_back(
    engine: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_S3_SECRET_KEY", "very-secret")
    engine.image('printf "%s\\n" "$KEY" "$@"; echo v2 > "$ODF_NEW_ETAG_PATH"; touch "$ODF_NEW_HAS_MORE_DATA_PATH"')
    answer = engine.fetch(tmp_path / "into", args=("one", "two three"))
    assert (tmp_path / "into").read_text() == "a b='c'\none\ntwo three\n"
    assert answer == ContainerAnswer(size=22, new_etag="v2", has_more=True)
    environment = engine.asked()["env"]
    assert isinstance(environment, dict)
    assert "KEY" not in environment
    assert "very-secret" not in environment.values()
    engine.image('echo 2026-01-01T00:00:00Z > "$ODF_NEW_LAST_MODIFIED_PATH"')
    assert engine.fetch(tmp_path / "2") == ContainerAnswer(size=0, new_last_modified="2026-01-01T00:00:00Z")
    assert engine.fetch(tmp_path / "3", command=("printf",), args=("%s", "x")).size == 1


def test_failures_say_what_the_container_said(engine: StandIn, tmp_path: Path) -> None:
    engine.image("echo part; echo the key is wrong >&2; exit 3")
    with pytest.raises(InvalidData, match=r"exit code 3\): the key is wrong"):
        engine.fetch(tmp_path / "into")
    engine.image("exit 127")
    with pytest.raises(InvalidManifest, match="no such command"):
        engine.fetch(tmp_path / "into")
    (engine.folder / "images" / "fetch:1").unlink()
    with pytest.raises(Determinate, match="no such image"):
        engine.fetch(tmp_path / "into")
    (engine.folder / "engine").unlink()
    with pytest.raises(Determinate, match="cannot be run"):
        engine.fetch(tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_time_and_output_are_bounded_and_the_container_is_killed(engine: StandIn, tmp_path: Path) -> None:
    engine.image("sleep 60")
    with pytest.raises(LimitExceeded) as caught:
        engine.fetch(tmp_path / "into", total_s_max=1.0)
    assert caught.value.limit == "container_s_max"
    engine.image("yes")
    with pytest.raises(LimitExceeded) as caught:
        engine.fetch(tmp_path / "into", output_bytes_max=1000)
    assert caught.value.limit == "source_bytes_max"
    assert len((engine.folder / "killed").read_text().split()) == 2
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    "script",
    [
        'ln -s /etc/hostname "$ODF_NEW_ETAG_PATH"',
        'mkfifo "$ODF_NEW_ETAG_PATH"',
        'mkdir "$ODF_NEW_ETAG_PATH"',
        'head -c 2000 /dev/zero > "$ODF_NEW_ETAG_PATH"',
        'printf "a\\nb" > "$ODF_NEW_ETAG_PATH"',
    ],
)
def test_files_that_are_no_short_texts_are_refused(engine: StandIn, tmp_path: Path, script: str) -> None:
    engine.image(script)
    with pytest.raises(InvalidData):
        engine.fetch(tmp_path / "into")


@pytest.mark.parametrize(
    "image", ["", "-v/:/x", "ghcr.io/me/a b", "ghcr.io/other/x", "ghcr.io/me/../x y", "--privileged"]
)
def test_images_that_are_refused(image: str, tmp_path: Path) -> None:
    source = CliContainerSource(Path("/nonexistent"), ["ghcr.io/me/*"], ContainerLimits())
    with pytest.raises(InvalidManifest):
        source.fetch(ContainerRun(image=image, environment={}), tmp_path / "into")


@pytest.mark.parametrize("environment", [{"A B": "x"}, {"": "x"}, {"#A": "x"}, {"A": "x\nB=y"}, {"A": "\0"}])
def test_variables_that_are_refused(environment: dict[str, str], tmp_path: Path) -> None:
    source = CliContainerSource(Path("/nonexistent"), ["*"], ContainerLimits())
    with pytest.raises(InvalidManifest):
        source.fetch(ContainerRun(image="x", environment=environment), tmp_path / "into")
