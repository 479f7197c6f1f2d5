"""Drafts of derivative datasets, bound to ports: made from SQL, then judged.

By the engine, before anything is created.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Subject
from odfabric.model.engine import ValidateResult
from odfabric.model.identity import DatasetAlias
from odfabric.model.manifest import DatasetSnapshot
from odfabric.usecases.transform.draft_transform import draft_transform
from odfabric.usecases.transform.judge_transform import refuse_problems, snapshot_request
from odfabric.wiring.node import Node


@dataclass(frozen=True, slots=True)
class DraftVerbs:
    """What the author of a query asks of a node before the dataset exists."""

    node: Node

    def draft(self, name: DatasetAlias, sql: str, *, by: Subject) -> DatasetSnapshot:
        """The dataset that a query would make. Raises InvalidRequest, LimitExceeded."""
        maximum = self.node.settings.query_text_bytes_max
        return draft_transform(name, sql, repository=self.node.seen_by(by), text_bytes_max=maximum)

    def judge(self, snapshot: DatasetSnapshot, *, by: Subject) -> ValidateResult:
        """What the query gives and how it runs. Raises InvalidQuery with all problems.

        As far as the columns of its inputs are known.
        """
        node = self.node
        request = snapshot_request(
            snapshot, repository=node.seen_by(by), described={}, expected=node.datasets.expected_columns().of
        )
        result = node.ports.engine.validate_query(request)
        refuse_problems(result)
        return result
