"""What an Exchange promises, as tests. A subclass gives `exchange`."""

from __future__ import annotations

import pytest

from odfabric.ports.datasets.exchange import Exchange
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads


class ExchangeContract:
    """Sessions."""

    @pytest.fixture
    def exchange(self) -> Exchange:
        raise NotImplementedError

    def test_a_session_is_an_empty_folder_below_the_root(self, exchange: Exchange) -> None:
        assert exchange.root.is_absolute()
        with exchange.session() as folder:
            assert folder.is_dir()
            assert folder != exchange.root
            assert folder.is_relative_to(exchange.root)
            assert list(folder.iterdir()) == []

    def test_sessions_do_not_meet(self, exchange: Exchange) -> None:
        with exchange.session() as one, exchange.session() as two:
            assert one != two
            assert not one.is_relative_to(two)
            assert not two.is_relative_to(one)

    def test_a_session_goes_with_all_it_holds(self, exchange: Exchange) -> None:
        with exchange.session() as folder:
            (folder / "a" / "b").mkdir(parents=True)
            (folder / "a" / "b" / "file").write_bytes(b"data")
            (folder / "link").symlink_to(exchange.root)
        assert not folder.exists()
        assert exchange.root.is_dir()

    def test_a_session_goes_after_a_failure_too(self, exchange: Exchange) -> None:
        session = exchange.session()
        folder = session.__enter__()
        assert not session.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert not folder.exists()

    def test_a_session_that_the_engine_removed_ends_quietly(self, exchange: Exchange) -> None:
        with exchange.session() as folder:
            folder.rmdir()

    def test_threads_get_folders_of_their_own(self, exchange: Exchange) -> None:
        def use(number: int) -> str:
            with exchange.session() as folder:
                (folder / "file").write_text(str(number))
                assert (folder / "file").read_text() == str(number)
                return str(folder)

        assert len({str(outcome) for outcome in outcomes_of_threads(use)}) == THREADS
