"""A mirror gives a lost dataset back, and its exported key goes on signing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.model.jobs.requests import SendWish
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.transfer.sharing import ended
from tests.usecases.transfer.smart_parties import SERVED, Answers, SmartParties

PASSPHRASE = "correct horse battery staple"


def test_a_mirror_gives_a_lost_dataset_back(tmp_path: Path) -> None:
    parties = SmartParties(tmp_path)
    ours, theirs, dataset = parties.ours.node, parties.theirs.node, parties.entry.id
    parties.ingest(1)
    parties.theirs.remotes.publish_store(SERVED, parties.ours.objects, prefix=dataset_prefix(dataset))
    assert parties.smart_pull()["upToDate"] is False
    signer, entries = theirs.heads.described(parties.copy).signer, theirs.heads.described(parties.copy).entries
    document = ours.heads.export_sealed(parties.entry, passphrase=PASSPHRASE, by=ours.operator)
    ours.datasets.delete(parties.entry)

    lost = Answers(parties.ours, "local/readings")
    parties.theirs.conversations.serve(SERVED, "push", lost.push)
    parties.theirs.linked_objects.serve("http://ours/", lost.read, lost.write)

    def takes(url: str, path: str, data: bytes) -> bool:
        ours.heads.accept(ours.datasets.resolve(dataset), path, data)
        return True

    parties.theirs.peers.takes_refs = takes
    sent = ended(parties.theirs, theirs.sharing.push(parties.copy, SendWish(to=SERVED), by=theirs.operator))
    assert sent.get("upToDate") is False, sent
    back = ours.datasets.resolve(dataset)
    found = ours.heads.described(back)
    assert (found.signer, found.entries, found.can_sign, back.is_copy) == (signer, entries, False, False)

    ours.heads.import_sealed(back, document, passphrase=PASSPHRASE, by=ours.operator)
    parties.ingest(2)
    assert ours.heads.described(ours.datasets.resolve(dataset)).entries == entries + 1
    checked: Any = ended(parties.ours, ours.requests.verify(ours.datasets.resolve(dataset), VerifyOptions()))
    assert (checked["ok"], "skipped" in checked) == (True, False)
    assert parties.smart_pull()["rows"] == 1


def test_a_copy_takes_rows_once_its_key_is_here(tmp_path: Path) -> None:
    parties = SmartParties(tmp_path)
    parties.ingest(1)
    parties.push()
    parties.pull()
    ours, theirs = parties.ours.node, parties.theirs.node
    assert parties.copy.is_copy
    document = ours.heads.export_sealed(parties.entry, passphrase=PASSPHRASE, by=ours.operator)
    theirs.heads.import_sealed(parties.copy, document, passphrase=PASSPHRASE, by=theirs.operator)
    assert not parties.copy.is_copy
    before = theirs.heads.described(parties.copy).entries
    parties.ingest(2, at=parties.theirs)
    assert theirs.heads.described(parties.copy).entries == before + 1
