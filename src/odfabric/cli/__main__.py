"""`python -m odfabric.cli`, which is what `./odf` runs, and `odf` of an installed package."""

import sys

from odfabric.cli.app import main


def run() -> None:
    """One command, by the arguments of this process; ends it with the exit code."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
