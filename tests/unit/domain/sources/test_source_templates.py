"""Templates in source texts: alternatives, refusals, hidden secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.sources.source_templates import (
    HIDDEN,
    Expanded,
    Value,
    expand_template,
    hide_secrets,
    template_variables,
    without_secrets,
)
from odfabric.errors import InvalidManifest, NotFound

VALUES = {"TOKEN": Value("s3cret", secret=True), "HOST": Value("data.example"), "EMPTY": Value("")}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
PLAIN = st.text().filter(lambda text: "${{" not in text and not text.endswith(("$", "${")))


def expand(text: str) -> Expanded:
    return expand_template(text, VALUES.get, field="fetch.url")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no template", "no template"),
        ("https://${{ env.HOST }}/x", "https://data.example/x"),
        ("${{env.HOST}}${{ env.HOST }}", "data.exampledata.example"),
        ("${{ env.NONE || env.HOST }}", "data.example"),
        ("${{ env.NONE || 'a default' || env.HOST }}", "a default"),
        ("${{ env.NONE || '' }}", ""),
        ("${{ env.EMPTY || 'x' }}", ""),
        ("${{ env.NONE || -12.5 }}", "-12.5"),
        ("${{ 7 }}", "7"),
        ("${{ 'a || b' }}", "a || b"),
        ("${{ '${{' }}", "${{"),
        ("}} and $ and ${ and {{", "}} and $ and ${ and {{"),
    ],
)
def test_the_first_alternative_with_a_value_counts(text: str, expected: str) -> None:
    assert expand(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "${{ }}",
        "${{ env.HOST",
        "${{ HOST }}",
        "${{ env.HOST || }}",
        "${{ env.HOST | 'x' }}",
        '${{ "double" }}',
        "${{ 1. }}",
        "${{ env.A-B }}",
        "${{ env.HOST }} ${{",
        "${{ env.1A }}",
        "${{ 'it''s' }}",
    ],
)
def test_another_form_is_refused_at_its_place(text: str) -> None:
    for read in (expand, lambda text: template_variables(text, field="fetch.url")):
        with pytest.raises(InvalidManifest) as refused:
            read(text)
        assert refused.value.place.field == "fetch.url"
        assert "|| 'default'" in (refused.value.hint or "")


def test_a_variable_without_a_value_is_named() -> None:
    with pytest.raises(NotFound, match=r"variable not found: A, B") as refused:
        expand("${{ env.A || env.B }}")
    assert refused.value.place.field == "fetch.url"
    assert "odf variables set" in (refused.value.hint or "")


def test_values_of_secrets_are_kept_apart_and_hidden() -> None:
    assert expand("Bearer ${{ env.TOKEN }} at ${{ env.HOST }}") == Expanded(
        "Bearer s3cret at data.example", ("s3cret",)
    )
    error = NotFound("source", "https://d.example/?key=a%2Fb", hint="a/b")
    hidden = without_secrets(error, ("a/b",))
    assert "a%2Fb" not in str(hidden)
    assert "a/b" not in str(hidden)
    assert hidden is error


@given(before=PLAIN, name=NAMES, value=st.text(), after=PLAIN)
def test_a_value_is_put_in_as_it_is(before: str, name: str, value: str, after: str) -> None:
    text = f"{before}${{{{ env.{name} }}}}{after}"
    found = expand_template(text, {name: Value(value, secret=True)}.get, field="x")
    assert found == Expanded(before + value + after, (value,))
    assert template_variables(text, field="x") == (name,)


@given(secrets=st.lists(st.text(min_size=4), min_size=1, max_size=3), parts=st.lists(st.text(), max_size=3))
def test_no_hidden_text_shows_a_secret(secrets: list[str], parts: list[str]) -> None:
    text = "".join(part + secret for part, secret in zip([*parts, ""], secrets, strict=False))
    shown = hide_secrets(text, tuple(secrets))
    assert all(secret not in shown.replace(HIDDEN, "\0") for secret in secrets)
