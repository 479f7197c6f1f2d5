"""Judging and folding a long chain, against folding alone and reading backwards.

    PYTHONPATH=src .odf/venv/bin/python tests/perf/chains/bench_chain_state.py [--blocks 100000]

Prints blocks/s of each over AddData blocks held in memory: what a node pays to accept a pulled chain, decoding excluded, and
to rebuild the summary that appending needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from odfabric.domain.chain.state import ChainState, apply
from odfabric.domain.chain.validate import validate_append
from odfabric.domain.chain.walk import read_state
from odfabric.model.metadata import SetDataSchema
from odfabric.testing.chains import ChainBuilder, example_schema


def add_data_chain(blocks: int) -> ChainBuilder:
    chain = ChainBuilder()
    chain.append(SetDataSchema(schema=example_schema()))
    while len(chain.blocks) < blocks:
        chain.append(chain.next_add_data(3))
    return chain


def fold(chain: ChainBuilder, *, judging: bool) -> ChainState:
    state = ChainState.empty()
    for encoded in chain.blocks:
        if judging:
            validate_append(state, encoded.block)
        state = apply(state, encoded.hash, encoded.block)
    return state


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=100_000)
    chain = add_data_chain(parser.parse_args().blocks)
    measured: dict[str, Callable[[], ChainState]] = {
        "judge and fold": lambda: fold(chain, judging=True),
        "fold": lambda: fold(chain, judging=False),
        "read from the head": lambda: read_state(chain, chain.head),
    }
    for name, run in measured.items():
        started = time.perf_counter()
        assert run() == chain.state
        print(f"{name}: {len(chain.blocks) / (time.perf_counter() - started):,.0f} blocks/s")


if __name__ == "__main__":
    main()
