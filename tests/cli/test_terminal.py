"""Texts of others on a terminal, and spans of time."""

from unicodedata import category

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from askd.cli.options import span
from askd.cli.terminal import block, excerpt, line

TEXTS = st.text(st.characters(codec=None), max_size=200)


@given(TEXTS)
def test_no_control_character_is_shown(text: str) -> None:
    for shown, allowed in ((block(text), "\n\t"), (line(text), ""), (excerpt(text, 20), "")):
        assert all(category(character) != "Cc" or character in allowed for character in shown)
        shown.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_an_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert block(text) == text


@given(TEXTS)
def test_an_excerpt_is_one_short_line(text: str) -> None:
    shown = excerpt(text, 20)
    assert len(shown) <= 20
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x1b[31m\x9b1m\x07\x7f\x00", "\\x1b[31m\\x9b1m\\x07\\x7f\\x00"),
        ("\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"),
        ("a\rb\x85c\u2028", "a\\x0db\\x85c\\u2028"),
        ("👩‍👩‍👧 é 漢", "👩‍👩‍👧 é 漢"),
    ],
)
def test_controls_are_made_visible(text: str, shown: str) -> None:
    assert block(text) == shown


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("10m", 600), ("2h", 7200), ("7d", 604800), ("-1", -1)]
)
def test_spans_have_units(text: str, seconds: float) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5w", "1h30m", "ten", "5mm"])
def test_what_is_no_span_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        span(text)
