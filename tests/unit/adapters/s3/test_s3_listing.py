"""Keys come in order of their texts from servers of both kinds."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from odfabric.adapters.s3.listing import in_order_of_texts, keys_in_order

NAMES = st.sets(
    st.text("a-./0", min_size=1, max_size=6).filter(lambda name: "//" not in name and name.strip("/") == name)
)


def without_folders_of_keys(names: set[str]) -> set[str]:
    """A key is no folder of another."""
    return {name for name in names if not any(other.startswith(f"{name}/") for other in names)}


@given(NAMES, st.booleans(), st.integers(1, 3))
@example({"a..", "a./0", "a/0"}, True, 2)  # the page of both folders is in the order of texts, what follows is not
def test_keys_are_in_order(names: set[str], keeps_folders: bool, page_size: int) -> None:
    keys = without_folders_of_keys(names)

    def pages(prefix: str) -> list[list[str]]:  # as a server would
        cut = {
            prefix + key[len(prefix) :].partition("/")[0] + "/" * ("/" in key[len(prefix) :])
            for key in keys
            if key.startswith(prefix)
        }
        listed = sorted(cut, key=(lambda text: text.rstrip("/")) if keeps_folders else None)
        return [listed[start : start + page_size] for start in range(0, len(listed), page_size)]

    assert list(keys_in_order("", lambda prefix: iter(pages(prefix)))) == sorted(keys)


def test_what_is_in_order_is_not_kept_waiting() -> None:
    def texts():  # type: ignore[no-untyped-def]
        yield "a"
        yield "b/"
        raise AssertionError("the first text was known")

    assert next(in_order_of_texts(texts())) == "a"
