"""JSON values: their canonical form, and which of them are legal (CONTRACT section 2)."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.samples import content_refusal, nested
from tests.domain.strategies import ODD_FLOATS, examples, floats, is_legal, json_values, texts

from askd.domain import canonical
from askd.domain.errors import Code, ContentError

INVALID = Code.INVALID_ARGUMENTS


@given(json_values)
@examples(200)
def test_a_legal_value_is_encoded_byte_for_byte_as_rfc8785_does(value: Any) -> None:
    assert canonical.encode(value) == rfc8785.dumps(value).decode()
    assert canonical.encode_checked(value, "value") == rfc8785.dumps(value).decode()


@given(st.lists(floats, min_size=1, max_size=5))
@examples(200)
def test_floats_are_spelled_as_rfc8785_does(values: list[float]) -> None:
    assert canonical.encode(values) == rfc8785.dumps(values).decode()


@pytest.mark.parametrize("value", ODD_FLOATS)
def test_a_float_that_languages_spell_differently_is_spelled_as_rfc8785_does(value: float) -> None:
    assert canonical.encode({"a": [value]}) == rfc8785.dumps({"a": [value]}).decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (1.0, "1"),
        (5e-324, "5e-324"),
        (1e-7, "1e-7"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (1e-6, "0.000001"),
        (1e-5, "0.00001"),
        (0.0001, "0.0001"),
        (333333333.3333332, "333333333.3333332"),
        (9007199254740991.0, "9007199254740991"),
    ],
)
def test_numbers_are_spelled_as_ecmascript_does(value: float, text: str) -> None:
    assert canonical.encode(value) == text


@given(st.dictionaries(texts(16), st.just(0), min_size=2, max_size=8))
@examples(200)
def test_keys_are_ordered_as_rfc8785_does(value: dict[str, Any]) -> None:
    assert canonical.encode(value) == rfc8785.dumps(value).decode()


def test_keys_beyond_plane_0_come_before_those_at_its_end() -> None:
    assert canonical.encode({"\uffff": 1, "\U00010000": 2}) == '{"\U00010000":2,"\uffff":1}'


def test_only_quotes_backslashes_and_control_characters_are_escaped() -> None:
    assert (
        canonical.encode('\x00\x08\x1f"\\/\x7f\u2028é\U0001f600') == '"\\u0000\\b\\u001f\\"\\\\/\x7f\u2028é\U0001f600"'
    )


@given(texts(200))
@examples(150)
def test_the_encoded_size_of_a_text_counts_quotes_and_escapes(text: str) -> None:
    assert canonical.encoded_size(text) == len(rfc8785.dumps(text))


@given(json_values)
@examples(150)
def test_an_encoded_value_reads_back_as_it_was(value: Any) -> None:
    assert json.loads(canonical.encode(value)) == value


@given(
    st.recursive(
        st.one_of(st.floats(), st.integers(), st.text(st.characters()), st.none(), st.binary(max_size=2)),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
@examples(200)
def test_what_is_accepted_is_exactly_what_is_legal(value: Any) -> None:
    if is_legal(value):
        canonical.check(value, "value")
    else:
        with pytest.raises(ContentError):
            canonical.check(value, "value")


def refused(value: object, field: str, *said: str | int) -> None:
    content_refusal(lambda: canonical.check(value, "value"), INVALID, field, *said)
    content_refusal(lambda: canonical.encode_checked(value, "value"), INVALID, field, *said)


@pytest.mark.parametrize(
    "number", [2**53 - 1, -(2**53) + 1, 9007199254740991.0, -9007199254740991.0, 4503599627370495.5, 5e-324, -0.0]
)
def test_numbers_to_the_last_exact_integer_are_legal(number: float) -> None:
    canonical.check(number, "value")


@pytest.mark.parametrize(
    "number", [2**53, -(2**53), 2.0**53, -(2.0**53), 1e20, -1e300, 10**400, pytest.param(10**5000, id="huge")]
)
def test_integral_numbers_beyond_are_refused_however_they_are_spelled(number: float) -> None:
    refused({"a": [number]}, "value.a[0]", "integral", "2^53-1")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    refused([0, number], "value[1]", "finite")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"])
def test_lone_surrogates_are_refused(text: str) -> None:
    refused({"a": text}, "value.a", "surrogate")


def test_a_key_with_a_lone_surrogate_is_refused_at_its_object() -> None:
    refused({"a": [{"\ud800": 1}]}, "value.a[0]", "surrogate")


@pytest.mark.parametrize("key", [1, None, True, ("a",), pytest.param(10**5000, id="huge")])
def test_a_key_that_is_no_string_is_refused_at_its_object(key: object) -> None:
    refused([{key: 1}], "value[0]", "key", type(key).__name__)


@pytest.mark.parametrize("value", [b"", (1,), {1}, object(), 1j, Ellipsis])
def test_what_is_no_json_type_is_refused(value: object) -> None:
    refused({"a": value}, "value.a", type(value).__name__)


def test_20_levels_are_legal() -> None:
    canonical.check(nested(20), "value")


def test_an_empty_array_and_an_empty_object_are_levels() -> None:
    refused([nested(19), nested(19), [[[]]], _in_arrays({}, 20)], f"value[3]{'[0]' * 19}", "20 levels")
    refused(_in_arrays([], 20), f"value{'[0]' * 20}", "20 levels")


def test_21_levels_are_refused_at_the_innermost() -> None:
    refused(_in_arrays(0, 21), f"value{'[0]' * 20}", "20 levels")


def test_endless_nesting_is_refused_without_being_followed() -> None:
    endless: list[object] = []
    endless.append(endless)
    refused(endless, f"value{'[0]' * 20}", "20 levels")
    refused(_in_arrays(0, 100_000), f"value{'[0]' * 20}", "20 levels")


def _in_arrays(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_no_matter_for_encoding_alone() -> None:
    assert canonical.encode(_in_arrays(0, 30)) == "[" * 30 + "0" + "]" * 30
