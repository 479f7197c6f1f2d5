"""What a person types to run this program again."""

import sys


def program() -> str:
    """`./odf` in a checkout, where the launcher runs this as a module; else the command that was installed."""
    return "./odf" if sys.argv[0].endswith("__main__.py") else "odf"
