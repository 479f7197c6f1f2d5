"""Prints the checklist of a release; exit code 0 only if every line is ok."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from deploy.releasing.checkout import check_locks, check_tree
from deploy.releasing.licences import check_licences
from deploy.releasing.notes import check_changelog, check_fragments, check_upgrade_notes
from deploy.releasing.outcome import Outcome
from deploy.releasing.versions import check_images, check_tag, check_versions, version_of
from deploy.releasing.vulnerabilities import check_vulnerabilities
from deploy.releasing.wheel import check_wheel

ROOT = Path(__file__).parents[2]
IMAGES = ("node", "engine")
"""Stages of the Dockerfile, each with the lock of its packages."""


def main(arguments: Sequence[str]) -> int:
    """Runs all checks, in the order in which a failure is cheapest."""
    parser = argparse.ArgumentParser(prog="deploy/release", description="Check that this commit can be released.")
    parser.add_argument("--offline", action="store_true", help="accept that vulnerabilities could not be looked up")
    return report(outcomes(ROOT, offline=parser.parse_args(arguments).offline), version_of(ROOT))


def outcomes(root: Path, *, offline: bool) -> Iterator[Outcome]:
    """Each check when it is asked for, so that its line appears when it is made."""
    for check in (check_tree, check_versions, check_images, check_tag, check_fragments, check_changelog):
        yield check(root)
    for check in (check_upgrade_notes, check_locks, check_licences):
        yield check(root)
    yield check_vulnerabilities(root, offline=offline)
    yield check_wheel(root)


def report(checked: Iterable[Outcome], version: str) -> int:
    """Prints the lines, and what to do next if all are ok."""
    failed = 0
    for outcome in checked:
        print(outcome, flush=True)
        failed += not outcome.ok
    if failed:
        print(f"\n{failed} not ok: {version} cannot be released from this commit")
        return 1
    print(f"\n{version} can be released. Next, after `./odf test --nightly`:\n")
    print("\n".join(f"  {command}" for command in next_commands(version)))
    return 0


SBOM_TOOLS = (
    ".odf/venv/bin/uv venv --clear .odf/sbom",
    ".odf/venv/bin/uv pip sync --python .odf/sbom/bin/python --require-hashes locks/sbom.lock",
)
"""The environment of what makes bills of materials."""


def next_commands(version: str) -> list[str]:
    """What a maintainer runs, who has the rights that this script does not ask for."""
    stamped = f"--build-arg VERSION={version} --build-arg REVISION=$(git rev-parse HEAD)"
    return [
        f'git tag --sign v{version} --message "odfabric {version}"',
        f"git push origin v{version}",
        ".odf/venv/bin/uv build --wheel --no-build-isolation --python .odf/venv/bin/python",
        f".odf/venv/bin/uv publish dist/odfabric-{version}-py3-none-any.whl",
        *(
            f"docker build --target {image} {stamped} --build-arg SOURCE=$(git remote get-url origin) "
            f"--tag odfabric-{image}:{version} . && docker push odfabric-{image}:{version}"
            for image in IMAGES
        ),
        *SBOM_TOOLS,
        *(
            f".odf/sbom/bin/cyclonedx-py requirements --output-reproducible "
            f"--output-file dist/odfabric-{image}-{version}.cdx.json locks/{image}.lock"
            for image in IMAGES
        ),
        "helm package deploy/helm/odfabric",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
