"""Texts of pages: all are in the catalogue from which translations are made."""

from __future__ import annotations

from babel.messages.pofile import read_po

from tests.support.texts_of_pages import CATALOGUE, catalogue


def test_the_catalogue_has_the_texts_of_the_templates() -> None:
    assert CATALOGUE.read_bytes() == catalogue(), "run `python -m tests.support.texts_of_pages`"


def test_it_can_be_read_by_those_who_translate() -> None:
    with CATALOGUE.open("rb") as file:
        texts = {
            text for message in read_po(file) for text in ([message.id] if isinstance(message.id, str) else message.id)
        }
    assert {"Sign in", "Columns", "one record behind", "%(count)s records behind"} <= texts
    assert len(texts) > 400
