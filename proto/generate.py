"""Writes `src/odfabric/generated` from the .proto files: `.odf/venv/bin/python proto/generate.py [OUTPUT_ROOT]`.

Owns how generated modules are named: the virtual folder `odfabric/generated/engine_v1` makes protoc write imports that fit
the package. OUTPUT_ROOT (default `src`) lets a test generate elsewhere and compare: the checked-in files are never edited.
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
ENGINE = "odfabric/generated/engine_v1"


def generate(output_root: Path) -> list[Path]:
    """Generates all modules below `output_root` and returns their paths. Raises RuntimeError if protoc refuses a file."""
    (output_root / ENGINE).mkdir(parents=True, exist_ok=True)
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={ENGINE}={ROOT / 'proto/odfabric/engine/v1'}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--python_out={output_root}",
            f"--pyi_out={output_root}",
            f"--grpc_python_out={output_root}",
            f"{ENGINE}/engine.proto",
        ]
    )
    if code != 0:
        raise RuntimeError(f"protoc ended with {code}")
    package = output_root / ENGINE / "__init__.py"
    package.write_text('"""Generated from proto/odfabric/engine/v1 by proto/generate.py; never edited."""\n')
    return sorted((output_root / ENGINE).glob("*.py*"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the generated modules.")
    parser.add_argument("output_root", nargs="?", type=Path, default=ROOT / "src")
    generate(parser.parse_args().output_root)
