"""What the engine informs Spark about a cluster, and which clusters it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.errors import Determinate, InvalidRequest
from odfabric_engine_spark.process.sandbox.file_view import view_of
from odfabric_engine_spark.process.sandbox.keeper import Kept, keep
from odfabric_engine_spark.process.sandbox.walls import Sandbox
from odfabric_engine_spark.spark.cluster.cluster_settings import await_master, check_cluster, in_time
from odfabric_engine_spark.spark.session import PINNED, spark_conf
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.support.waiting import free_port

SECRET = "a secret of the cluster"
ROOT = Path(__file__).resolve().parents[4]
EXECUTOR_JAVA = ROOT / "services/engine-spark/src/odfabric_engine_spark/process/executor_java/bin/java"


def settings(tmp_path: Path, master: str = "spark://somewhere:7077") -> EngineSettings:
    return EngineSettings(exchange=tmp_path, spark_master=master, spark_secret=SECRET)


def test_executors_get_what_can_change_a_result_and_nobody_comes_in_without_the_secret(tmp_path: Path) -> None:
    told = dict(spark_conf(settings(tmp_path), scratch=str(tmp_path)).getAll())
    assert PINNED.items() <= told.items()
    assert told["spark.master"] == "spark://somewhere:7077"
    for flag in ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"):
        assert flag in told["spark.executor.extraJavaOptions"].split()
    assert told["spark.executorEnv.TZ"] == "UTC"
    assert told["spark.authenticate"] == told["spark.network.crypto.enabled"] == "true"
    assert told["spark.network.crypto.saslFallback"] == "false"
    assert told["spark.ui.enabled"] == "false"
    assert told["spark.cores.max"] == "2"


def test_executors_get_flags_of_their_own(tmp_path: Path) -> None:
    chosen = replace(
        settings(tmp_path), jvm_options="-Xss2m", executor_jvm_options="-XX:+UseSerialGC -XX:MaxMetaspaceSize=400m"
    )
    flags = dict(spark_conf(chosen, scratch=str(tmp_path)).getAll())["spark.executor.extraJavaOptions"].split()
    assert flags[-2:] == ["-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=400m"]
    assert "-Xss2m" not in flags


def test_alone_it_speaks_to_the_loopback_only(tmp_path: Path) -> None:
    told = dict(spark_conf(EngineSettings(exchange=tmp_path, cores=3), scratch=str(tmp_path)).getAll())
    assert told["spark.master"] == "local[3]"
    assert told["spark.driver.host"] == told["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.authenticate" not in told


def test_the_secret_is_not_shown(tmp_path: Path) -> None:
    assert SECRET not in repr(settings(tmp_path))


@pytest.mark.parametrize(
    "master", ["k8s://https://here", "yarn", "local[4]", "spark://", "spark://a:1,b:2", "spark://a"]
)
def test_only_standalone_clusters_are_used(tmp_path: Path, master: str) -> None:
    with pytest.raises(InvalidRequest, match="spark_master"):
        check_cluster(settings(tmp_path, master))


def test_a_cluster_without_a_secret_is_refused(tmp_path: Path) -> None:
    check_cluster(settings(tmp_path))
    check_cluster(EngineSettings(exchange=tmp_path))
    with pytest.raises(InvalidRequest, match="secret"):
        check_cluster(replace(settings(tmp_path), spark_secret="short"))


def test_a_master_that_is_not_there_is_named(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(Determinate, match=f"spark_master = {master}"):
        await_master(replace(settings(tmp_path, master), cluster_wait_s_max=0.3))


def test_a_master_that_does_not_answer_is_given_up_and_named(tmp_path: Path) -> None:
    given_up = Path(tmp_path / "given up")

    def connect() -> None:
        while not given_up.exists():
            pass
        raise ConnectionError

    with pytest.raises(Determinate, match="spark_master"):
        in_time(connect, give_up=given_up.touch, settings=replace(settings(tmp_path), cluster_wait_s_max=0.2))


def test_an_engine_that_must_be_sealed_has_no_cluster(tmp_path: Path) -> None:
    kept = Kept(settings=settings(tmp_path), sandbox=Sandbox.SEALED, listen="unix:", token="t", ready_file=None)
    with pytest.raises(Determinate, match="sealed"):
        keep(kept)


def test_names_are_looked_up_only_where_there_is_a_cluster(tmp_path: Path) -> None:
    folders = {"exchange": tmp_path, "private": tmp_path, "java": tmp_path, "cache": None}
    resolver = Path("/etc/resolv.conf")
    assert resolver not in view_of(**folders).read  # type: ignore[arg-type]
    assert (resolver in view_of(**folders, network=True).read) == resolver.exists()  # type: ignore[arg-type]


def test_executors_do_without_the_module_that_packaged_runtimes_lack() -> None:
    environment = {"ODF_EXECUTOR_JAVA": "/bin/echo", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [EXECUTOR_JAVA, "-Xmx1m", "--add-modules=jdk.incubator.vector", "Main"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "-Xmx1m Main\n"


def test_master_and_workers_insist_on_a_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    command = [sys.executable, "-P", "-m", "odfabric_engine_spark.process.cluster_process", "master"]
    ran = subprocess.run([*command, "--secret-file", str(tmp_path / "secret")], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "secret" in ran.stderr
