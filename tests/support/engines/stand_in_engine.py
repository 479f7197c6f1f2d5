"""A stand-in for an OCI engine: takes its options, runs a test script, no image.

It is no engine: there are no namespaces and no images, so it shows what the node asks for and what it makes of answers, not that containers
are shut in. Images are shell scripts in the folder `images` beside it, by the last part of their names; `killed` lists what was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = "/opt/odf/out"
FLAGS = ("--rm", "--read-only")


def main(arguments: list[str]) -> int:
    """Exit code, as docker and podman have them."""
    verb, *rest = arguments
    if verb == "kill":
        with (HERE / "killed").open("a") as file:
            file.write(rest[0] + "\n")
        os.killpg(int((HERE / f"pid-{rest[0]}").read_text()), signal.SIGKILL)
        return 0
    options: dict[str, str] = {}
    while rest and rest[0].startswith("-"):
        name, _, value = rest.pop(0).partition("=")
        options[name] = value
        assert value or name in FLAGS, name
    image, *command = rest
    (HERE / "asked").write_text(
        json.dumps({"options": options, "image": image, "command": command, "env": dict(os.environ)})
    )
    script = HERE / "images" / image.rpartition("/")[2]
    if not script.exists():
        print(f"no such image: {image}", file=sys.stderr)
        return 125
    out = options["--volume"].partition(":")[0]
    lines = Path(options["--env-file"]).read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    environment = {name: value.replace(FOLDER, out) for name, value in given.items()}
    text = script.read_text().replace(FOLDER, out)
    entry = [options["--entrypoint"]] if "--entrypoint" in options else ["/bin/sh", "-c", text, image]
    process = subprocess.Popen([*entry, *command], env={"PATH": "/usr/bin:/bin", **environment}, start_new_session=True)
    (HERE / f"pid-{options['--name']}").write_text(str(process.pid))
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
