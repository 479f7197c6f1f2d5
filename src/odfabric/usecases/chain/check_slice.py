"""The one seam at which a slice is compared with all that a block says of it.

Invariant: anyone who takes over or judges a data block asks here, for every block, however the object came: bytes, size, hashes, rows.
"""

from __future__ import annotations

from odfabric.domain.chain.slice_rules import slice_rules
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.verify import FoundSlice, ProblemKind, VerificationProblem, verify_slice
from odfabric.domain.chain.walk import ChainLink
from odfabric.errors import IncompatibleSchema, InvalidBlock, InvalidData
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.parquet.parquet_reading import Source
from odfabric.formats.slices.slice_check import examine_slice
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash


def slice_problems(
    before: ChainState,
    link: ChainLink,
    declared: DataSlice,
    source: Source | None,
    *,
    hashed: tuple[Multihash, int] | None = None,
) -> list[VerificationProblem]:
    """What is wrong with a slice of the block on top of `before`.

    `source` is a local copy of the slice, a file or a stream over its bytes (None: it is missing).

    The block itself has passed the rules of chains. `hashed` is what the bytes of the copy hash to, and how many there are, if that has
    been found out before.
    """
    dataset = before.dataset_id

    def problem(message: str) -> VerificationProblem:
        kind, name = ProblemKind.DATA_DOES_NOT_MATCH_METADATA, declared.physical_hash
        return VerificationProblem(kind=kind, dataset=dataset, block=link.hash, object=name, message=message)

    found: FoundSlice | None = None
    messages: tuple[str, ...] = ()
    if source is not None:
        physical, size = hashed or physical_hash(source)
        try:
            rules = slice_rules(before, declared.offset_interval, system_time=link.block.system_time)
            examined = examine_slice(source, rules)
        except (InvalidData, IncompatibleSchema, InvalidBlock) as error:
            # Damaged bytes often cannot even be read as Parquet.
            return [problem(error.message)]
        logical, messages = examined.digest, examined.problems
        found = FoundSlice(size=size, physical_hash=physical, logical_hash=logical.multihash, rows=logical.rows)
    mismatch = verify_slice(dataset, before.kind, link.hash, declared=declared, found=found)
    return [mismatch] if mismatch is not None else [problem(message) for message in messages]
