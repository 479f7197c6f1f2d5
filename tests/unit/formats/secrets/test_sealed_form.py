"""The sealed form: the same secret under the same key and context, or nothing."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import assume, given
from hypothesis import strategies as st

from odfabric.errors import Corrupt
from odfabric.formats.secrets.sealed_form import FORM, SEALED_BYTES_MIN, is_sealed, key_id, mark_of, open_sealed, seal
from odfabric.formats.webhooks.webhook_signature import SECRET_BYTES_MAX, SECRET_BYTES_MIN
from odfabric.model.identity import DatasetId
from odfabric.ports.node.sealing import dataset_key_context, is_plain_webhook_secret, webhook_secret_context

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
NONCE = bytes(12)

keys = st.binary(min_size=32, max_size=32)
nonces = st.binary(min_size=12, max_size=12)
secrets = st.binary(max_size=200)
contexts = st.binary(max_size=100)
subscriptions = st.text(max_size=40)


def opened(sealed: bytes, *known: bytes, context: bytes) -> bytes:
    return open_sealed(sealed, context=context, find_key={key_id(key): key for key in known}.get)


def old_form(key: bytes, private: Ed25519PrivateKey) -> tuple[bytes, DatasetId]:
    """A sealed key as older releases have written it, by their description."""
    public = private.public_key().public_bytes_raw()
    sealed = ChaCha20Poly1305(key).encrypt(NONCE, private.private_bytes_raw(), public)
    return b"\x01" + hashlib.sha3_256(key).digest()[:8] + NONCE + sealed, DatasetId(public)


@given(keys, secrets, contexts, nonces, st.lists(keys, max_size=3))
def test_what_was_sealed_opens(key: bytes, secret: bytes, context: bytes, nonce: bytes, others: list[bytes]) -> None:
    sealed = seal(key, secret, context=context, nonce=nonce)
    assert opened(sealed, *others, key, context=context) == secret
    assert is_sealed(sealed)
    assert sealed.startswith(mark_of(key))
    assert len(sealed) == SEALED_BYTES_MIN + len(secret)


def test_the_form_is_the_one_that_is_described() -> None:
    """By hand, so that the codec is not its own witness."""
    identity = hashlib.sha3_256(KEY).digest()[:8]
    text = ChaCha20Poly1305(KEY).encrypt(NONCE, b"secret", b"ODFSEAL\x02" + identity + b"subscription:a1")
    sealed = seal(KEY, b"secret", context=webhook_secret_context("a1"), nonce=NONCE)
    assert sealed == b"ODFSEAL\x02" + identity + NONCE + text


@given(secrets, contexts, st.data())
def test_any_flipped_bit_is_noticed(secret: bytes, context: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(KEY, secret, context=context, nonce=NONCE))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt):
        opened(bytes(sealed), KEY, OTHER, context=context)


@given(secrets, contexts, st.data())
def test_any_other_length_is_noticed(secret: bytes, context: bytes, data: st.DataObject) -> None:
    sealed = seal(KEY, secret, context=context, nonce=NONCE)
    cut = sealed[: data.draw(st.integers(0, len(sealed) - 1))]
    for changed in (cut, sealed + data.draw(st.binary(min_size=1, max_size=40))):
        with pytest.raises(Corrupt):
            opened(changed, KEY, context=context)


@given(secrets, contexts, contexts)
def test_it_opens_in_its_own_context_only(secret: bytes, context: bytes, other: bytes) -> None:
    assume(context != other)
    with pytest.raises(Corrupt, match="moved there from another row"):
        opened(seal(KEY, secret, context=context, nonce=NONCE), KEY, context=other)


@given(subscriptions, subscriptions, st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_rows_have_contexts_of_their_own(one: str, two: str, first: bytes, second: bytes) -> None:
    assert (webhook_secret_context(one) == webhook_secret_context(two)) == (one == two)
    keys_of_datasets = [dataset_key_context(DatasetId(key)) for key in (first, second)]
    assert (keys_of_datasets[0] == keys_of_datasets[1]) == (first == second)
    assert webhook_secret_context(one) not in keys_of_datasets


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(Corrupt, match=f"key {key_id(KEY).hex()}, which the node's key file does not have") as refused:
        opened(seal(KEY, b"secret", context=b"subscription:a1", nonce=NONCE), OTHER, context=b"subscription:a1")
    assert refused.value.object_name == "subscription:a1"
    assert "share one key file" in str(refused.value.hint)
    assert "secret'" not in str(refused.value)


@given(keys, keys)
def test_keys_of_datasets_sealed_by_older_releases_open(sealing_key: bytes, private_bytes: bytes) -> None:
    private = Ed25519PrivateKey.from_private_bytes(private_bytes)
    sealed, dataset = old_form(sealing_key, private)
    assert opened(sealed, sealing_key, context=dataset_key_context(dataset)) == private_bytes
    assert not is_sealed(sealed)


@given(st.integers(0, 69 * 8 - 1))
def test_any_flipped_bit_of_the_older_form_is_noticed(bit: int) -> None:
    sealed, dataset = old_form(KEY, Ed25519PrivateKey.from_private_bytes(OTHER))
    changed = bytearray(sealed)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt):
        opened(bytes(changed), KEY, context=dataset_key_context(dataset))


def test_the_older_form_is_of_keys_of_datasets_alone() -> None:
    sealed, dataset = old_form(KEY, Ed25519PrivateKey.from_private_bytes(OTHER))
    for context in (dataset.key, webhook_secret_context("a1"), dataset_key_context(DatasetId(bytes(32)))):
        with pytest.raises(Corrupt):
            opened(sealed, KEY, context=context)


@given(st.binary(min_size=SECRET_BYTES_MIN, max_size=SECRET_BYTES_MAX))
def test_a_sealed_secret_of_a_webhook_is_never_taken_for_a_plain_one(secret: bytes) -> None:
    """Not even where somebody chose one that looks sealed."""
    for chosen in (secret, (FORM + secret)[:SECRET_BYTES_MAX]):
        assert is_plain_webhook_secret(chosen)
        assert not is_plain_webhook_secret(seal(KEY, chosen, context=b"", nonce=NONCE))
