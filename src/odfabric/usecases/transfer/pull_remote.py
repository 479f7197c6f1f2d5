"""Copy a dataset from elsewhere by the Simple Transfer Protocol.

Owns how the protocol fills an arriving chain: the head, blocks one by one from there down, objects by name. Not here: what happens to them
(`receive_chain`). Source: RFC-007.
"""

from __future__ import annotations

from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.sources.egress import RemoteDatasets
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.transfer.arriving_chain import ArrivingChain, ReceivedBlocks
from odfabric.usecases.transfer.receive_chain import Landing, ReceivePorts, receive_chain


def pull_remote(
    landing: Landing, url: str, *, run: JobRun, remotes: RemoteDatasets, exchange: Exchange, ports: ReceivePorts
) -> CommitResult | None:
    """Bring a dataset of this node to the head of the one under `url`.

    None if it is up to date. Raises as `receive_chain`.
    """
    remote = remotes.open(url)
    head = remote.head()
    with exchange.session() as folder:
        arriving = ArrivingChain(
            head=head,
            blocks=ReceivedBlocks(remote, folder, chain=remote),
            objects=remote,
            shown=url,
            log=remote,
            leads=True,
        )
        return receive_chain(arriving, landing, folder=folder, run=run, ports=ports)
