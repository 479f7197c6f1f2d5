"""Changing the transform of a derivative dataset that has transactions already.

Owns what may change and what the first transaction afterwards is: the same inputs in the same order, an output that the chain
admits, and either the next increment, if both transforms say the same of the same columns, or a migration: the new transform over everything, reported as
the difference to what the old one had left. Which of the two is not written in the chain; it follows from the two transforms, so
a replay finds the same. Not here: judging queries (the engine), planning (`domain.transform.transform_plan`). Source:
specification, "Query evolution"; docs/engine.md#operations.
"""

from __future__ import annotations

from odfabric.domain.chain.schema_evolution import check_same_order, evolved_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.validate import input_dataset_id
from odfabric.domain.chain.walk import BlockSource, walk
from odfabric.errors import InvalidRequest, Place
from odfabric.model.data_schema import DataSchema
from odfabric.model.metadata import SetTransform
from odfabric.model.vocabulary import DatasetVocabulary

_NEW_DATASET = "declare a new dataset with this transform; this one keeps its rows"


def replaced_transform(state: ChainState, blocks: BlockSource) -> SetTransform | None:
    """The transform of the last transaction, if another one has taken its place since.

    `blocks` are the dataset's own.
    """
    present, last = state.transform, state.execute_transform
    if present is None or last is None or present.sequence_number < last.sequence_number:
        return None
    for link in walk(blocks, last.block_hash):
        if isinstance(link.block.event, SetTransform):
            return link.block.event
    return None


def is_asked_for_again(state: ChainState, blocks: BlockSource) -> bool:
    """Whether the transform replaced an equal one: a request to recompute."""
    transforms: list[SetTransform] = []
    for link in walk(blocks, state.head):
        if isinstance(link.block.event, SetTransform):
            transforms.append(link.block.event)
            if len(transforms) > 1:
                return transforms[0] == transforms[1]
    return False


def has_more_columns(state: ChainState) -> bool:
    """Whether the schema was changed behind the last transaction."""
    schema, last = state.schema, state.execute_transform
    return schema is not None and last is not None and schema.sequence_number > last.sequence_number


def check_inputs_stay(before: SetTransform, after: SetTransform) -> None:
    """Raises InvalidRequest unless the transforms read the same datasets in order."""
    if [input_dataset_id(each) for each in before.inputs] != [input_dataset_id(each) for each in after.inputs]:
        raise InvalidRequest(
            "the inputs of a transform that has run cannot change, nor their order",
            place=Place(field="inputs"),
            hint=_NEW_DATASET,
        )


def schema_of_output(current: DataSchema, output: DataSchema, vocabulary: DatasetVocabulary) -> DataSchema:
    """The dataset's schema under a transform with this output.

    What it has, then new optional columns; `current` if none is new.

    Raises IncompatibleSchema for any other difference, naming the first.
    """
    of = "the output of the new transform"
    evolved = evolved_schema(current, output, of=of, hint=_NEW_DATASET)
    if evolved is not current:
        check_same_order(evolved, output, vocabulary, of=of)
    return evolved
