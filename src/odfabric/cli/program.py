"""What a person types to run this program again."""

import sys

_AS_A_MODULE = "odfabric/cli/__main__.py"


def program() -> str:
    """`./odf` in a checkout, where the launcher runs this as a module.

    Else the command that was installed.
    """
    return "./odf" if sys.argv[0].endswith(_AS_A_MODULE) else "odf"
