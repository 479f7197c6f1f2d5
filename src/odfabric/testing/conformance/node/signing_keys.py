"""What SigningKeys promises, as tests.

A subclass gives `keys`, new and empty for each test.
"""

from __future__ import annotations

import pytest

from odfabric.errors import AlreadyExists
from odfabric.model.people.signing_key import SigningKey
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.testing.conformance.examples import later


def key_of(number: int) -> SigningKey:
    """A key, made so many milliseconds after the others began.

    Their ids do not have the order of their making.
    """
    return SigningKey(id=f"key{9 - number}", public=bytes([number]) * 32, made_at=later(number))


class SigningKeysContract:
    """Every `SigningKeys`."""

    @pytest.fixture
    def keys(self) -> SigningKeys:
        raise NotImplementedError

    def test_there_is_none_at_first(self, keys: SigningKeys) -> None:
        assert (keys.current(), list(keys.all()), keys.forget_retired(before=later(100))) == (None, [], 0)

    def test_the_newest_key_signs(self, keys: SigningKeys) -> None:
        keys.add(key_of(1), private=b"first")
        assert keys.current() == (key_of(1), b"first")
        keys.add(key_of(2), private=b"second")
        keys.add(key_of(3), private=b"third")
        assert keys.current() == (key_of(3), b"third")
        assert [(key.id, key.public, key.retired_at) for key in keys.all()] == [
            ("key6", bytes([3]) * 32, None),
            ("key7", bytes([2]) * 32, later(3)),
            ("key8", bytes([1]) * 32, later(2)),
        ]

    def test_a_key_is_added_once(self, keys: SigningKeys) -> None:
        keys.add(key_of(1), private=b"first")
        keys.add(key_of(2), private=b"second")
        with pytest.raises(AlreadyExists):
            keys.add(key_of(1), private=b"first")
        assert keys.current() == (key_of(2), b"second")

    def test_retired_keys_are_forgotten_and_the_one_that_signs_is_not(self, keys: SigningKeys) -> None:
        for number in (1, 2, 3):
            keys.add(key_of(number), private=b"private")
        assert keys.forget_retired(before=later(3)) == 1
        assert [key.id for key in keys.all()] == ["key6", "key7"]
        assert keys.forget_retired(before=later(1000)) == 1
        assert keys.current() == (key_of(3), b"private")
