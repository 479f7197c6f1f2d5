"""Makes `.odf/venv` from the locks; run by `./odf` when its stamp is old, with any Python 3.11+ and the standard library only.

What it promises: an environment whose stamp is written is complete; concurrent first calls make it once; only files whose
hashes are in the locks are installed, the build tools of source packages included. It is not a resolver: see `relock`.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = ("src", "services/api/src", "services/worker/src", "services/engine-spark/src")
TOOLS = ("docs", "test", "release")  # groups that only some verbs of `odf` need, in the order of the stamp
NO_PACKAGES = 3  # exit code of services/api/web/make.py
PIP = ("-m", "pip", "--disable-pip-version-check", "-qq")  # errors only: a first call says nothing that is not needed


def main(root: Path, groups: list[str]) -> None:
    """Installs the locks of these groups, waiting for another call that is at it."""
    home = root / ".odf"
    home.mkdir(exist_ok=True)
    with open(home / "install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp_file = home / "stamp"
        installed = stamp_file.read_text() if stamp_file.exists() else ""
        # Installation is exact: it would take the tools of a checkout away again.
        groups = [*groups, *(group for group in TOOLS if f" {group}.lock" in installed and group not in groups)]
        wanted = stamp(root, groups)
        web = root / "services/api/web/make.py" if "node" in groups else None
        has_web = web is None or not web.exists() or (home / "web/manifest.json").exists()
        if installed.startswith(wanted) and (home / "venv/bin/python").exists() and has_web:
            return
        print(f"odf: making the environment in {home} (about a minute when nothing is cached)", file=sys.stderr)
        stamp_file.unlink(missing_ok=True)
        make_environment(home / "venv", [root / "locks" / f"{group}.lock" for group in groups])
        add_own_packages(home / "venv", root)
        if web is not None and web.exists():
            build_scripts(home, web)
        stamp_file.write_text(wanted)  # last of all, so that an interrupted installation is repeated


def stamp(root: Path, groups: list[str]) -> str:
    """What `odf` compares, from the same script."""
    return subprocess.check_output(["sh", str(root / "locks/stamp"), str(root), *groups], text=True).strip()


def make_environment(venv: Path, locks: list[Path]) -> None:
    """Installs exactly the locks, by uv, which is installed by pip from the first of them."""
    if not usable(venv):
        shutil.rmtree(venv, ignore_errors=True)
        create_venv(venv, locks[0])
    uv = [str(venv / "bin/uv"), "pip", "sync", "--quiet", "--python", str(venv / "bin/python"), "--require-hashes"]
    # Source packages are built with the tools of boot.lock, not with whatever is newest today. Compiled once here, commands
    # start in half the time, also for users who cannot write to the environment or do not want bytecode written.
    options = ("--no-build-isolation", "--compile-bytecode")
    run([*uv, *options, *map(str, locks)], env=uv_environment(venv))


def usable(venv: Path) -> bool:
    """A moved folder or a removed interpreter leaves a venv whose commands do not start."""
    if not (venv / "bin/uv").exists() or str(venv) not in (venv / "bin/activate").read_text():
        return False
    return subprocess.run([str(venv / "bin/python"), "-c", ""], capture_output=True).returncode == 0


def create_venv(venv: Path, boot_lock: Path) -> None:
    """Makes a venv with pip, or, where Debian's Python came without ensurepip, one filled by that Python's own pip."""
    install = ["install", "--require-hashes", "--no-deps", "-r", str(boot_lock)]
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True)
    if made.returncode == 0:
        run([str(venv / "bin/python"), *PIP, *install])
        return
    shutil.rmtree(venv, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        sys.exit(
            f"odf: {sys.executable} can make no virtual environment and has no pip.\n"
            "On Debian and Ubuntu: apt-get install python3-venv. Or set ODF_PYTHON to another Python 3.11+."
        )
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    run([sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), *PIP[2:], *install])


def uv_environment(venv: Path) -> dict[str, str]:
    """uv does not read pip's configuration: anyone who pointed pip to a mirror or a certificate means uv as well."""
    env = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    for variable, option in (("UV_DEFAULT_INDEX", "index-url"), ("SSL_CERT_FILE", "cert")):
        answer = subprocess.run(
            [sys.executable, *PIP, "config", "get", f"global.{option}"], capture_output=True, text=True
        )
        value = os.environ.get(f"PIP_{option.upper().replace('-', '_')}") or answer.stdout.strip()
        if variable not in env and value:
            env[variable] = value
    # --no-build-isolation runs the build tools of this venv, which look for their commands on PATH.
    env["PATH"] = f"{venv / 'bin'}{os.pathsep}{env.get('PATH', '')}"
    return env


def add_own_packages(venv: Path, root: Path) -> None:
    """Own packages are importable where they lie: nothing to build, nothing to reinstall after an edit."""
    (site_packages,) = venv.glob("lib/python3.*/site-packages")
    (site_packages / "odfabric.pth").write_text("".join(f"{root / source}\n" for source in SOURCES))


def build_scripts(home: Path, maker: Path) -> None:
    """Builds the console's scripts into `.odf/web`. Without npm's packages everything else works, so that is no failure."""
    built = home / "web"
    command = [str(home / "venv/bin/python"), "-I", str(maker), str(built)]
    made = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if made.returncode == 0:
        return
    shutil.rmtree(built, ignore_errors=True)  # older scripts do not fit the pages of today
    reason = next(iter(made.stderr.splitlines()), "") if made.returncode == NO_PACKAGES else made.stderr
    print(f"odf: the web console works without its scripts until they can be built: {reason}", file=sys.stderr)


def run(command: list[str], env: dict[str, str] | None = None) -> None:
    """Runs one step; its own messages tell what went wrong, the last line says what to do."""
    if subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode != 0:
        sys.exit(
            "odf: the environment could not be made (see above). It needs a package index that pip or uv can reach;\n"
            "run the same command again when it is there: nothing has to be cleaned up first."
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
