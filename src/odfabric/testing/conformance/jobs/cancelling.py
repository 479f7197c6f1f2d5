"""Contract of Jobs.cancel with ChainWriter.append.

A job is cancelled or committed, and never both.

A subclass gives `storage` and `jobs` over one state, new and empty for each test.
"""

from __future__ import annotations

import pytest

from odfabric.errors import LeaseLost, OdfError
from odfabric.model.jobs.job import JobKind, JobStatus, NewJob
from odfabric.ports.jobs.jobs import Jobs
from odfabric.testing.conformance.examples import NOW, GrowingChain, StoragePorts, hashes_down, later, new_chain
from odfabric.testing.conformance.together import outcomes_of_threads

ROUNDS = 20


def commit_for(chain: GrowingChain, *job_ids: str) -> None:
    """Append a block that is the work of the jobs."""
    blocks = chain.next_blocks(label=" ".join(job_ids))
    chain.chains.append(chain.id, expected=chain.head, blocks=blocks, message=chain.message(blocks), job_ids=job_ids)
    chain.blocks += blocks


def queue(jobs: Jobs, chain: GrowingChain, *job_ids: str) -> None:
    """Queue pushes to the dataset."""
    for job_id in job_ids:
        new = NewJob(id=job_id, kind=JobKind.PUSH, account="local", dataset_id=chain.id, request="{}", body=b"rows")
        jobs.enqueue(new, now=NOW)


class CancellingContract:
    """Cancelling against committing."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    @pytest.fixture
    def jobs(self) -> Jobs:
        raise NotImplementedError

    def test_what_is_cancelled_is_not_committed(self, storage: StoragePorts, jobs: Jobs) -> None:
        chain = new_chain(storage.chains)
        queue(jobs, chain, "first", "second")
        jobs.cancel("second", now=later(1))
        before = hashes_down(storage.chains, chain.id)
        with pytest.raises(LeaseLost):
            commit_for(chain, "first", "second")
        assert hashes_down(storage.chains, chain.id) == before
        assert storage.chains.commit_of_job("first") is storage.chains.commit_of_job("second") is None
        commit_for(chain, "first")
        assert storage.chains.commit_of_job("first") == chain.head

    def test_what_is_committed_is_not_cancelled(self, storage: StoragePorts, jobs: Jobs) -> None:
        chain = new_chain(storage.chains)
        queue(jobs, chain, "first", "second")
        commit_for(chain, "first", "second")
        for job_id in ("first", "second"):
            told = jobs.cancel(job_id, now=later(1))
            assert told is not None
            assert told.status is JobStatus.QUEUED
        assert len(jobs.bodies(["first", "second"])) == 2

    def test_jobs_that_are_elsewhere_do_not_matter(self, storage: StoragePorts, jobs: Jobs) -> None:
        chain = new_chain(storage.chains)
        commit_for(chain, "of-another-table")
        assert jobs.cancel("of-another-table", now=NOW) is None

    def test_of_cancelling_and_committing_one_wins(self, storage: StoragePorts, jobs: Jobs) -> None:
        for number in range(ROUNDS):
            chain = new_chain(storage.chains, f"raced-{number}")
            queue(jobs, chain, f"job-{number}")

            def act(actor: int, chain: GrowingChain = chain, job_id: str = f"job-{number}") -> str:
                if actor % 2:
                    commit_for(chain, job_id)
                    return "committed"
                told = jobs.cancel(job_id, now=NOW)
                return told.status.value if told is not None else "nothing"

            told = {_told(outcome) for outcome in outcomes_of_threads(act, count=2)}
            committed = storage.chains.commit_of_job(f"job-{number}") is not None
            assert told == ({"committed", "queued"} if committed else {"cancelled", "LeaseLost"})


def _told(outcome: str | OdfError) -> str:
    return outcome if isinstance(outcome, str) else type(outcome).__name__
