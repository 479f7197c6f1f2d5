"""Scenarios of transfers by the Smart protocol, each by its name.

Our client and our server, both whole nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from odfabric.adapters.memory.transfer.conversations import MemoryConversation
from odfabric.errors import AccessDenied, AlreadyExists, Determinate, InvalidRequest, NotFound, Unauthenticated
from odfabric.formats.smart.close_reason import close_reason
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.people.account import EVERYONE, Visibility
from odfabric.model.people.audit import AuditKind
from odfabric.model.transfer.smart import NameCollision
from odfabric.ports.transfer.conversations import Closed, Conversation
from odfabric.usecases.transfer.smart_parts import say
from tests.usecases.manifests import ROOT as MANIFEST
from tests.usecases.transfer.smart_parties import NODE, PLACE, SERVED, SmartParties
from tests.usecases.transfer.test_simple_scenarios import kinds


@pytest.fixture
def parties(tmp_path: Path) -> SmartParties:
    return SmartParties(tmp_path)


class BreaksOff:
    """A conversation whose server goes away at a message of its own."""

    def __init__(self, talk: Conversation, after: int) -> None:
        self._talk, self._left = talk, after

    def say(self, text: str) -> None:
        if self._left == 0:
            self._talk.end(1006, "")
            raise Determinate("the server is gone")
        self._left -= 1
        self._talk.say(text)

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        return self._talk.hear(seconds_max=seconds_max)

    def end(self, code: int, reason: str) -> None:
        self._talk.end(code, reason)


class TestPull:
    def test_new_empty(self, parties: SmartParties) -> None:
        assert parties.smart_pull()["rows"] == 0
        parties.check_both()

    def test_new(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.ingest(2)
        assert parties.smart_pull()["rows"] == 2
        parties.check_both()
        assert len(parties.answers.reads) == 2

    def test_existing_evolved(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_pull()
        parties.ingest(2)
        assert parties.smart_pull()["offsets"] == {"start": 1, "end": 1}
        parties.check_both()
        assert len(parties.answers.reads) == 2

    def test_existing_up_to_date(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_pull()
        assert parties.smart_pull()["upToDate"] is True

    def test_existing_diverged(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_pull()
        parties.rewrite(1)
        parties.ingest(2)
        parties.ingest(3)
        assert parties.smart_pull()["code"] == "chains-diverged"
        assert parties.smart_pull(force=True)["rows"] == 2
        parties.check_both()
        assert AuditKind.HISTORY_REPLACED in kinds(parties.theirs)

    def test_existing_destination_advanced(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_pull()
        parties.rewrite(1)
        refused = parties.smart_pull()
        assert (refused["code"], "by 2 blocks" in refused["message"]) == ("destination-ahead", True)
        parties.smart_pull(force=True)
        assert parties.theirs.node.datasets.head(parties.copy) == parties.ours.node.datasets.head(parties.entry)

    @pytest.mark.parametrize("evolved", [False, True], ids=["new", "evolved"])
    def test_aborted_read_then_read_again(self, parties: SmartParties, evolved: bool) -> None:
        if evolved:
            parties.smart_pull()
        parties.ingest(1)
        parties.ingest(2)
        for after in range(3):
            parties.around = lambda talk, after=after: BreaksOff(talk, after)  # type: ignore[misc]
            assert parties.smart_pull()["code"] == "unavailable"
            parties.around = lambda talk: talk
        assert parties.smart_pull()["rows"] == 2
        parties.check_both()

    def test_not_existing(self, parties: SmartParties) -> None:
        assert parties.smart_pull(url=f"{SERVED}nothing")["code"] == "not-found"

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (Unauthenticated("a token is wanted"), "unauthenticated"),
            (AccessDenied("no"), "access-denied"),
            (InvalidRequest("Incompatible client version"), "invalid-request"),
        ],
        ids=["unauthenticated", "wrong-user", "incompatible-version"],
    )
    def test_refused_before_it_begins(self, parties: SmartParties, error: InvalidRequest, code: str) -> None:
        parties.theirs.conversations.refuse(SERVED, "pull", error)
        refused = parties.smart_pull()
        assert (refused["code"], refused["message"]) == (code, error.message)

    def test_a_chain_too_long_for_a_frame_is_refused_with_the_other_protocol(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.ours.settings = parties.ours.settings.model_copy(update={"smart_frame_bytes_max": 1024})
        parties.ours.restart()
        refused = parties.smart_pull()
        assert "no odf+" in refused["message"]
        assert parties.theirs.node.repository.find(DatasetAlias(Name("local"), Name("copy"))) is None


class TestPush:
    def test_new_empty(self, parties: SmartParties) -> None:
        assert parties.smart_push()["upToDate"] is False
        parties.check_both()

    @pytest.mark.parametrize("visibility", Visibility)
    def test_new(self, parties: SmartParties, visibility: Visibility) -> None:
        parties.ingest(1)
        parties.ingest(2)
        sent = parties.smart_push(visibility=visibility)
        assert (sent["objects"], sent["to"]) == (2, PLACE)
        parties.check_both()
        grants = parties.theirs.node.ports.relations.granted([parties.copy.id], [EVERYONE])
        assert bool(grants) is (visibility is Visibility.PUBLIC)

    def test_new_via_repo_ref(self, parties: SmartParties) -> None:
        parties.ingest(1)
        node = parties.ours.node
        node.sharing.repositories.add("node", NODE, shared=False, by=node.operator)
        assert parties.smart_push(to="node/local/readings")["objects"] == 1
        parties.check_both()

    def test_existing_evolved(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_push()
        parties.ingest(2)
        sent = parties.smart_push()
        assert (sent["blocks"], sent["objects"]) == (1, 1)
        parties.check_both()

    def test_up_to_date(self, parties: SmartParties) -> None:
        parties.smart_push()
        assert parties.smart_push()["upToDate"] is True

    def test_diverged(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_push()
        parties.rewrite(1)
        parties.ingest(2)
        assert parties.smart_push()["code"] == "chains-diverged"
        sent = parties.smart_push(force=True)
        assert (sent["replacedBlocks"], "code" in sent) == (2, False)
        assert parties.theirs.node.datasets.head(parties.copy) == parties.ours.node.datasets.head(parties.entry)
        assert AuditKind.HISTORY_REPLACED in kinds(parties.theirs)

    def test_server_advanced(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_push()
        parties.rewrite(1)
        assert parties.smart_push()["code"] == "destination-ahead"
        assert parties.smart_push(force=True)["replacedBlocks"] == 2
        assert parties.theirs.node.datasets.head(parties.copy) == parties.ours.node.datasets.head(parties.entry)

    def test_head_moved_between(self, parties: SmartParties, caplog: pytest.LogCaptureFixture) -> None:
        parties.smart_push()
        parties.ingest(1)

        def moved(talk: Conversation) -> Conversation:
            parties.ingest(3, at=parties.theirs)
            return talk

        parties.around = moved
        refused = parties.smart_push()
        assert refused["code"] == "chains-diverged"  # the job has tried again, and found what it met
        assert "expected the head at" in caplog.text

    def test_ref_collision(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.smart_push()
        node = parties.theirs.node
        other = NODE + "local/elsewhere/"
        parties.takes.name = "elsewhere"
        parties.ours.conversations.serve(other, "push", parties.takes.push)
        refused = parties.smart_push(to=other)
        assert (refused["code"], str(parties.entry.id) in refused["message"]) == ("already-exists", True)
        assert node.repository.find(DatasetAlias(Name("local"), Name("elsewhere"))) is None

    def test_name_collision(self, parties: SmartParties, tmp_path: Path) -> None:
        """Somebody makes a dataset of that name after the push began."""
        other = SmartParties(tmp_path / "other", seed=11)

        class MakesItMeanwhile(BreaksOff):
            def hear(self, *, seconds_max: float) -> str | Closed | None:
                found = super().hear(seconds_max=seconds_max)
                if isinstance(found, str) and "new_blocks" in found:
                    other.theirs = parties.theirs
                    parties.theirs.add(MANIFEST)
                return found

        parties.around = lambda talk: MakesItMeanwhile(talk, -1)
        refused = parties.smart_push()
        assert (refused["code"], "named local/readings" in refused["message"]) == ("already-exists", True)

    @pytest.mark.parametrize("unheard", [[], ["{}"]], ids=["at once", "after a question"])
    def test_a_refusal_counts_though_the_client_speaks_first(self, unheard: list[str]) -> None:
        """The server closes the conversation while the client says the next thing."""
        ours, theirs = MemoryConversation.pair()
        for text in unheard:
            theirs.say(text)
        theirs.end(1011, close_reason(NameCollision(alias="local/readings")))
        with pytest.raises(AlreadyExists, match="local/readings"):
            say(ours, "{}", shown=PLACE)

    def test_without_a_refusal_the_conversation_has_ended(self) -> None:
        ours, theirs = MemoryConversation.pair()
        theirs.end(1006, "")
        with pytest.raises(Determinate, match="closed the conversation"):
            say(ours, "{}", shown=PLACE)

    def test_another_dataset_is_there(self, parties: SmartParties, tmp_path: Path) -> None:
        parties.theirs.add(MANIFEST)
        there = parties.theirs.node.datasets.resolve(DatasetAlias(Name("local"), Name("readings")))
        from odfabric.formats.identifiers.dataset_layout import dataset_prefix

        parties.ours.remotes.publish_store(PLACE, parties.theirs.objects, prefix=dataset_prefix(there.id))
        before = parties.theirs.node.datasets.head(there)
        for force in (False, True):
            refused = parties.smart_push(force=force)
            assert (refused["code"], "id or kind is restricted" in refused["message"]) == ("invalid-request", True)
        assert parties.theirs.node.datasets.head(there) == before

    @pytest.mark.parametrize("evolved", [False, True], ids=["new", "updated"])
    def test_aborted_write_then_written_again(self, parties: SmartParties, evolved: bool) -> None:
        if evolved:
            parties.smart_push()
        parties.ingest(1)
        parties.ingest(2)
        for after in range(3):
            parties.around = lambda talk, after=after: BreaksOff(talk, after)  # type: ignore[misc]
            assert parties.smart_push()["code"] in {"unavailable", "outcome-unknown"}
            parties.around = lambda talk: talk
        assert parties.smart_push()["upToDate"] is False
        parties.check_both()

    def test_aborted_while_objects_are_uploaded(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.ingest(2)

        def fails() -> None:
            if len(parties.takes.writes) == 1:
                raise Determinate("the disk is full")

        parties.takes.before_write = fails
        assert parties.smart_push()["code"] == "unavailable"
        assert (
            parties.theirs.node.datasets.head(parties.copy).sequence_number == 0
        )  # of a push that broke off a Seed is left
        parties.takes.before_write = lambda: None
        assert parties.smart_push()["objects"] == 1  # what is there is not sent again
        parties.check_both()

    @pytest.mark.parametrize("where", ["lost", "damaged"])
    def test_objects_that_are_not_there_are_found_before_the_head_moves(
        self, parties: SmartParties, where: str
    ) -> None:
        parties.ingest(1)
        write = parties.takes.write

        def wrong(url: object, data: bytes) -> None:
            if where == "damaged":
                key = f"{parties.entry.id.multibase}/data/{url.url.rpartition('/')[2]}"  # type: ignore[attr-defined]
                parties.theirs.objects.put_bytes(key, bytes(len(data)))

        parties.ours.linked_objects.serve("http://theirs/", parties.takes.read, wrong)
        refused = parties.smart_push()
        assert (refused["code"], "refuses: data object" in refused["message"]) == ("invalid-request", True)
        assert parties.theirs.node.datasets.head(parties.copy).sequence_number == 0
        parties.ours.linked_objects.serve("http://theirs/", parties.takes.read, write)

    def test_rights_that_go_meanwhile(self, parties: SmartParties) -> None:
        parties.ingest(1)

        def withdrawn() -> None:
            def now(by: object) -> object:
                raise AccessDenied("your rights were withdrawn")

            parties.takes.now = now  # type: ignore[method-assign,assignment]

        parties.takes.before_write = withdrawn
        assert "withdrawn" in parties.smart_push()["message"]
        assert parties.theirs.node.datasets.head(parties.copy).sequence_number == 0

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (Unauthenticated("a push needs a token"), "unauthenticated"),
            (AccessDenied("no"), "access-denied"),
            (InvalidRequest("Incompatible client version"), "invalid-request"),
            (NotFound("account", "nobody"), "not-found"),
        ],
        ids=["unauthenticated", "wrong-user", "incompatible-version", "not-found"],
    )
    def test_refused_before_it_begins(self, parties: SmartParties, error: InvalidRequest, code: str) -> None:
        parties.ours.conversations.refuse(PLACE, "push", error)
        refused = parties.smart_push()
        assert (refused["code"], refused["message"]) == (code, error.message)

    def test_a_chain_too_long_for_a_message_is_refused_before_anything_is_sent(self, parties: SmartParties) -> None:
        parties.ingest(1)
        parties.ours.settings = parties.ours.settings.model_copy(update={"smart_message_bytes_max": 1024})
        parties.ours.restart()
        opened: list[Callable[[], None]] = []
        parties.ours.conversations.serve(PLACE, "push", lambda _: opened.append(lambda: None))
        refused = parties.smart_push()
        assert (refused["code"], "folder or a bucket" in refused["message"]) == ("limit-exceeded", True)
        assert opened == []
