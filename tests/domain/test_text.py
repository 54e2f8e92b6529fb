"""Identifiers, blank texts and sizes (CONTRACT section 1)."""

import pytest
from hypothesis import given
from tests.domain.samples import located_refusal
from tests.domain.strategies import examples, texts

from askd.domain.errors import Code
from askd.domain.text import check_identifier, check_size, is_blank, size

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
#: What str.strip() takes for white space, or what looks like it, but Unicode's White_Space does not hold.
VISIBLE_BLANKS = "\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u2060\ufeff\u2800\x00"


def refused(value: str, *said: str | int) -> None:
    located_refusal(lambda: check_identifier(value, "session_id"), Code.INVALID_ARGUMENTS, "session_id", *said)


@pytest.mark.parametrize("character", WHITE_SPACE)
def test_every_white_space_character_is_blank(character: str) -> None:
    assert is_blank(character)
    assert is_blank(character * 3)
    assert not is_blank(f"{character}x{character}")


def test_the_empty_text_and_all_white_space_together_are_blank() -> None:
    assert is_blank("")
    assert is_blank(WHITE_SPACE)


@pytest.mark.parametrize("character", VISIBLE_BLANKS)
def test_nothing_but_white_space_is_blank(character: str) -> None:
    assert not is_blank(character)
    assert not is_blank(f" {character} ")


@given(texts(200))
@examples(100)
def test_a_size_is_the_length_in_utf_8(text: str) -> None:
    assert size(text) == len(text.encode())


@pytest.mark.parametrize("value", ["a", "a/b%2F", "名前", " padded ", "x" * 128, "é" * 64, "\x80", "\u200b"])
def test_any_text_of_1_to_128_bytes_is_an_identifier(value: str) -> None:
    assert check_identifier(value, "session_id") == value


@pytest.mark.parametrize("value", ["x" * 129, "é" * 64 + "x"])
def test_an_identifier_of_129_bytes_is_refused(value: str) -> None:
    refused(value, 129, 128)


@pytest.mark.parametrize("value", ["", " ", "\u2003\u3000", "\t"])
def test_a_blank_identifier_is_refused(value: str) -> None:
    refused(value, "blank")


@pytest.mark.parametrize("character", [*map(chr, range(0x20)), "\x7f"])
def test_an_identifier_with_a_control_character_is_refused(character: str) -> None:
    refused(f"a{character}b", "control")


def test_a_text_may_have_as_many_bytes_as_its_limit() -> None:
    assert check_size("é" * 5, "name", 10) == "é" * 5
    located_refusal(lambda: check_size("é" * 5 + "x", "name", 10), Code.INVALID_ARGUMENTS, "name", 11, 10)
