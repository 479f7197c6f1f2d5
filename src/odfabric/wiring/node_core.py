"""What a node's groups of verbs share.

Ports, settings, rights, and the repository with the one writer of its heads.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import LOCAL_ACCOUNT, Subject
from odfabric.settings import Settings
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.heads.head_signing import HeadSigning
from odfabric.usecases.heads.judge_log import LogJudge
from odfabric.usecases.history.rewritten_inputs import InputHistories
from odfabric.usecases.rights.access import Access
from odfabric.usecases.rights.account_quotas import AccountQuotas
from odfabric.wiring.node_ports import NodePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCore:
    """Handed to every group of verbs.

    `repository` shows all datasets; people see it through `seen_by`.
    """

    ports: NodePorts
    settings: Settings
    access: Access
    quotas: AccountQuotas
    repository: Repository
    commits: Commits
    heads: HeadSigning

    @property
    def log_judge(self) -> LogJudge:
        """What judges head logs of datasets elsewhere."""
        return LogJudge(
            logs=self.ports.head_logs,
            clock=self.ports.clock,
            age_s_max=self.settings.head_age_s_max,
            entries_max=self.settings.head_log_entries_max,
        )

    def histories(self, seen: Repository) -> InputHistories:
        """What became of histories that derivatives have read, for a reader."""
        return InputHistories(
            repository=self.repository,
            seen=seen,
            logs=self.ports.head_logs,
            entries_max=self.settings.head_log_entries_max,
        )

    @property
    def operator(self) -> Subject:
        """The person at this process, account `local`. Raises NotFound before `odf init`."""
        return self.access.subject_later(str(LOCAL_ACCOUNT))

    def seen_by(self, subject: Subject) -> Repository:
        """The repository as a subject sees it."""
        name = subject.account.name if subject.account else LOCAL_ACCOUNT
        return self.repository.seen_through(self.access.seen_by(subject), name)
