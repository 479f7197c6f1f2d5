"""`python -m odfabric.cli`, which is what `./odf` runs."""

import sys

from odfabric.cli.app import main

sys.exit(main(sys.argv[1:]))
