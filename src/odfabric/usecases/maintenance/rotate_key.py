"""Rotate the node's key, and seal secrets that older releases left in the clear.

Invariant: at every moment each secret can be opened with the keys that there are. A key is made before anything is sealed with it; the
old ones go after a last look at all stores, during which nobody writes anything sealed. What is interrupted is done again, and goes on
where it was. A secret that no key opens stays as it is and is reported: it holds no key back. Source: ADR 0048.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from odfabric.errors import Corrupt
from odfabric.formats.secrets.sealed_form import FORM
from odfabric.ports.node.sealing import KeyRotation, SealedRow, SealedStore, Sealing

Listener = Callable[[str, int], None]
"""Called with a store and how many secrets are sealed with the new key."""


@dataclass(frozen=True, slots=True)
class UnopenedSecret:
    """A secret that no key of the node opens."""

    store: str
    key: str
    problem: Corrupt

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {"kind": self.store, "of": self.key, "message": self.problem.message, "hint": self.problem.hint}


@dataclass(slots=True)
class RotatedKey:
    """What a rotation did.

    `resumed` says that it continued an interrupted one; `sealed` counts secrets by store.
    """

    resumed: bool
    sealed: dict[str, int]
    keys_dropped: int = 0
    unopened: dict[tuple[str, str], UnopenedSecret] = field(default_factory=dict)

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "ok": not self.unopened,
            "resumed": self.resumed,
            "sealed": self.sealed,
            "keysDropped": self.keys_dropped,
            "unopened": [one.to_value() for one in self.unopened.values()],
        }


def rotate_key(
    stores: Sequence[SealedStore],
    *,
    sealing: Sealing,
    rotation: KeyRotation,
    portion_max: int,
    listener: Listener = lambda store, sealed: None,
) -> RotatedKey:
    """Make a new key current, seal everything with it, and drop older keys.

    A transaction seals up to `portion_max` secrets. Raises Determinate or Indeterminate if keys or stores fail, AccessDenied, Corrupt for a damaged key file: then it is repeated.
    """
    done = RotatedKey(resumed=not rotation.begin(), sealed={store.name: 0 for store in stores})

    def seal_all(kept: Callable[[], AbstractContextManager[None]]) -> None:
        done.unopened.clear()
        for store in stores:
            _renew(store, done, sealing=sealing, kept=kept, portion_max=portion_max, listener=listener)

    seal_all(sealing.kept)
    done.keys_dropped = rotation.drop_old(lambda: seal_all(nullcontext))
    return done


def has_plain(stores: Sequence[SealedStore], *, portion_max: int) -> bool:
    """Whether there are secrets in the clear."""
    return any(_plain(store, limit=portion_max) for store in stores if store.may_be_plain)


def seal_plain(stores: Sequence[SealedStore], *, sealing: Sealing, portion_max: int) -> int:
    """Seal all secrets that are in the clear; returns how many.

    Several processes may do it at once.
    """
    sealed = 0
    for store in (each for each in stores if each.may_be_plain):
        while True:
            with sealing.kept():
                found = _plain(store, limit=portion_max)
                sealed += store.replace([(row, sealing.seal(row.data, context=row.context)) for row in found])
            if not found:
                break
    return sealed


def _plain(store: SealedStore, *, limit: int) -> list[SealedRow]:
    """Some of the secrets in the clear, none only if there are none."""
    after: str | None = None
    while page := store.rows(unlike=FORM, after=after, limit=limit):
        if found := [row for row in page if store.is_plain(row.data)]:
            return found
        after = page[-1].key
    return []


def _renew(
    store: SealedStore,
    done: RotatedKey,
    *,
    sealing: Sealing,
    kept: Callable[[], AbstractContextManager[None]],
    portion_max: int,
    listener: Listener,
) -> None:
    after: str | None = None
    while True:
        with kept():
            page = store.rows(unlike=sealing.mark(), after=after, limit=portion_max)
            changes = []
            for row in page:
                try:
                    secret = row.data if store.is_plain(row.data) else sealing.open(row.data, context=row.context)
                except Corrupt as problem:
                    done.unopened[store.name, row.key] = UnopenedSecret(store.name, row.key, problem)
                else:
                    changes.append((row, sealing.seal(secret, context=row.context)))
            if changes:
                done.sealed[store.name] += store.replace(changes)
        if not page:
            return
        listener(store.name, done.sealed[store.name])
        after = page[-1].key
