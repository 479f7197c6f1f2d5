"""Take the published head log back into a database that has lost it.

Invariant: entries are added to what is kept here, never put in its place; each is signed by the dataset's keys, one after the other. Without
this a rebuilt node would begin a second log, which readers take for a fork.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.errors import Corrupt, CorruptedSource, NotFound
from odfabric.formats.identifiers.dataset_layout import head_log_key, in_dataset
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import REF_BYTES_MAX, ObjectStore
from odfabric.usecases.heads.judge_log import LogJudge


@dataclass(frozen=True, slots=True)
class _PublishedLog:
    """The log of a dataset of this node in its own object store."""

    dataset: DatasetId
    objects: ObjectStore

    def ref(self, path: str) -> bytes | None:
        try:
            return self.objects.read_bytes(in_dataset(self.dataset, path), size_max=REF_BYTES_MAX)
        except NotFound:
            return None


def restore_log(dataset: DatasetId, head: Multihash, *, objects: ObjectStore, judge: LogJudge) -> int:
    """Add the published entries that are not kept here; how many.

    Raises Corrupt for a published log that is damaged or another one than is kept here, LimitExceeded, Determinate, Indeterminate.
    """
    try:
        place = _PublishedLog(dataset, objects)
        judged = judge.judge(dataset, head, place, shown="the object store", force=True)
    except CorruptedSource as error:
        raise Corrupt(
            f"the published head log is not restored: {error.message}", object_name=head_log_key(dataset)
        ) from error
    if judged is None or not judged.moves:
        return 0
    if judged.replaces:
        raise Corrupt("the published head log is another one than is kept here", object_name=head_log_key(dataset))
    judge.logs.add(dataset, judged.moves)
    return len(judged.moves)
