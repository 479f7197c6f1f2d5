"""Renew the published signatures of heads that rest.

Readers of a bucket distinguish a quiet dataset from a frozen copy of it by the age of its signature. Invariant: only datasets whose key is
here are signed; a copy keeps the signature that came with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import DatasetAlias
from odfabric.usecases.heads.head_signing import HeadSigning


@dataclass(slots=True, kw_only=True)
class RestingHeads:
    """Walks through the catalog, `datasets_max` at a step, again and again.

    `age_s` is the age, in seconds, from which on a signature is renewed.
    """

    signing: HeadSigning
    age_s: float
    datasets_max: int
    _after: DatasetAlias | None = None

    def step(self) -> int:
        """Look at the next datasets; how many were signed again.

        Raises Determinate, Indeterminate.
        """
        page = self.signing.catalog.page(after=self._after, limit=self.datasets_max)
        self._after = page[-1].alias if len(page) == self.datasets_max else None
        return sum(self.signing.publisher.renew(entry, age_s=self.age_s) for entry in page)
