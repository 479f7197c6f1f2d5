"""Tables: nothing folded, whole values into a pipe, a terminal's width kept."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from odfabric.cli.tables import CELL_WIDTH_MIN, cell, fit, printable, shorten, table_lines

DID = "did:odf:fed01a073292b2781e744bc2229159c04eb8d9e5b0b7418fa18c4148d75fb51828e9c"
HASH = "f16209bd5ad0928f0655f34a299d58c17b6da7f528c5891689a1999cf82354c8d1e68"

values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=100)
tables = st.integers(1, 8).flatmap(
    lambda count: st.lists(st.tuples(*[values] * count), min_size=1, max_size=5).map(
        lambda rows: [{f"column {index}": value for index, value in enumerate(row)} for row in rows]
    )
)


def test_numbers_stand_right_text_left_and_nothing_trails() -> None:
    rows = [{"n": 5, "city": "Delft", "ok": True}, {"n": 1200, "city": None, "ok": False}]
    assert table_lines(rows, width=None) == [
        "   n  city   ok",
        "   5  Delft  true",
        "1200         false",
    ]


def test_a_pipe_gets_whole_values_on_one_line() -> None:
    words = "a sentence that is much longer than eighty columns " * 4
    (_, line) = table_lines([{"id": 1, "words": words}], width=None)
    assert line == f" 1  {words}".rstrip()


def test_identifiers_lose_their_middle() -> None:
    assert cell(DID) == "did:odf:fed01a073…8e9c"
    assert cell(HASH) == "f16209bd5…1e68"
    assert cell(f"see {HASH}") == f"see {HASH}", "only a value that is an identifier as a whole"


def test_the_list_of_datasets_fits_a_terminal_of_80_columns() -> None:
    row = {"alias": "local/readings.hourly", "id": DID, "kind": "Derivative", "head": HASH}
    assert all("…" not in line or line.count("…") == 2 for line in table_lines([row], width=80))
    assert max(map(len, table_lines([row], width=80))) <= 80


def test_the_widest_column_is_shortened_first() -> None:
    assert fit([5, 100, 30], 80) == [5, 45, 30]
    assert fit([5, 20, 30], 80) == [5, 20, 30]
    assert fit([40, 40, 40], 3 * CELL_WIDTH_MIN) == [CELL_WIDTH_MIN] * 3
    assert fit([40, 40, 40], 3 * CELL_WIDTH_MIN - 1) is None


def test_a_shortened_value_says_so_within_its_width() -> None:
    assert shorten("harbour", 7) == "harbour"
    assert shorten("harbour", 6) == "harbo…"
    assert shorten("東京都", 5) == "東京…", "a wide character is not cut in half"
    (_, line) = table_lines([{"a": "x" * 100, "b": 1}], width=20)
    assert line == "x" * 16 + "…  1"


def test_too_many_columns_become_records() -> None:
    rows = [{f"column_{index}": "a value of some length" for index in range(10)}]
    lines = table_lines(rows, width=80)
    assert lines[:2] == ["-- 1 --", "column_0  a value of some length"]
    assert len(lines) == 11


def test_what_drives_a_terminal_is_escaped() -> None:
    assert printable("\x1b[31mred\x07\n") == "\\x1b[31mred\\x07\\n"
    assert printable("two\nlines\x9b", keep="\n") == "two\nlines\\x9b"
    assert cell("two\nlines") == "two\\nlines"


@given(tables, st.integers(60, 200))
def test_no_line_is_wider_than_the_terminal(rows: list[dict[str, object]], width: int) -> None:
    assert all(cell_len(line) <= width for line in table_lines(rows, width=width))


@given(tables)
def test_a_row_is_one_line_in_a_pipe(rows: list[dict[str, object]]) -> None:
    lines = table_lines(rows, width=None)
    assert len(lines) == 1 + len(rows)
    assert all(line.isprintable() for line in lines)
