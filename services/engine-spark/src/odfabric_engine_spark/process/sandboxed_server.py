"""Runs the engine in its sandbox.

`python -m odfabric_engine_spark.process.sandboxed_server`.

Owns the way in: one line of JSON on the standard input says what the command line and the token file tell outside. Invariant: it serves
only if it sees every wall that it was promised; it ends in order when its standard input ends, so with its keeper in any case.
"""

from __future__ import annotations

import os
import sys

from odfabric.errors import Determinate, OdfError
from odfabric_engine_spark.process.sandbox.start_order import Order
from odfabric_engine_spark.process.sandbox.walls import layers_around_us
from odfabric_engine_spark.process.server import serve


def main() -> int:
    """Reads the order and serves; the exit code."""
    orders = os.fdopen(0, "rb", closefd=False)
    order = Order.from_line(orders.readline())
    standing = layers_around_us()
    sys.stderr.write(f"the sandbox of the engine: {', '.join(sorted(standing))}\n")
    try:
        missing = order.promised - standing
        if missing:
            raise Determinate(f"the sandbox lacks {', '.join(sorted(missing))}", hint="--sandbox=auto does with less")
        return serve(order.settings, listen=order.listen, token=order.token, ready_file=order.ready_file, keeper=orders)
    except OdfError as error:
        sys.stderr.write(f"the engine does not start: {error}\n")
        return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # As in `__main__`: threads that hang must not keep a process that has decided to end.
    os._exit(code)
