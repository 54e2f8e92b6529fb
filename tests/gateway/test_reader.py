"""The JSON reader takes what RFC 8259 allows, as it is, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import examples

from askd.gateway.reader import DEPTH, read_json
from askd.gateway.refusals import RefusalError

LARGEST = 2**53 - 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"", "body"),
        (b" ", "body"),
        (b"{", "body"),
        (b"{} {}", "body"),
        (b"{}x", "body"),
        (b"[1,]", "body"),
        (b"{'a':1}", "body"),
        (b'{"a":1,"a":1}', "body"),
        (b'[{"b":{"a":1,"a":2}}]', "body"),
        (b'{"a":1,"\\u0061":1}', "body"),
        (b"NaN", "body"),
        (b"[Infinity]", "body"),
        (b"-Infinity", "body"),
        (b"01", "body"),
        (b"1.", "body"),
        (b"+1", "body"),
        (b"0x1", "body"),
        (b'{"a":[1e400]}', "a[0]"),
        (b'{"a":9007199254740992}', "body"),
        (b'{"a":-9007199254740992}', "body"),
        (b'{"a":9007199254740992.0}', "a"),
        (b'{"a":{"b":1e300}}', "a.b"),
        (b"9" * 10_000, "body"),
        (b'"\\ud800"', "body"),
        (b'{"a":"\\udfff\\ud800"}', "a"),
        (b'{"a":{"\\ud800":1}}', "a"),
        (b'"\x01"', "body"),
        (b'"\xff"', "body"),
        (b'"\xed\xa0\x80"', "body"),
        (b"\xef\xbb\xbf{}", "body"),
        ("{}".encode("utf-16"), "body"),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "[0]" * DEPTH),
        (b"[" * 100_000, "body"),
        (b'{"a":' * 100_000, "body"),
        (b"/**/{}", "body"),
        (b"undefined", "body"),
    ],
)
def test_what_is_refused(text: bytes, field: str) -> None:
    with pytest.raises(RefusalError) as raised:
        read_json(text)
    assert (raised.value.code, raised.value.status, raised.value.field) == ("invalid_arguments", 400, field)
    raised.value.message.encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b' {"a": [1, -0.5, 1e2, true, null]}\r\n\t', {"a": [1, -0.5, 100.0, True, None]}),
        (b'"\\u0000\\ud83d\\ude00"', "\u0000\U0001f600"),
        (b"9007199254740991", LARGEST),
        (b"[1e3,0.12345678901234567,100000000000000000e-2]", [1000.0, 0.12345678901234567, 1e15]),
        (b"[" * DEPTH + b"]" * DEPTH, json.loads("[" * DEPTH + "]" * DEPTH)),
        ('{"é": "e\u0301\u2028"}'.encode(), {"é": "e\u0301\u2028"}),
    ],
)
def test_what_is_taken(text: bytes, value: Any) -> None:
    assert read_json(text) == value


LEAF = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text() | st.floats(-1e15, 1e15)
VALUES = st.recursive(LEAF, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@examples(60)
@given(VALUES, st.booleans())
def test_every_legal_value_is_read_as_it_was_written(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@examples(60)
@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        value = read_json(text)
    except RefusalError:
        return
    assert json.loads(text) == value


def test_a_wide_object_with_a_duplicate_is_refused_quickly() -> None:
    keys = ",".join(f'"{number}":0' for number in range(100_000))
    with pytest.raises(RefusalError, match="twice"):
        read_json(f'{{{keys},"99999":0}}'.encode())


def test_an_error_does_not_send_back_a_long_key() -> None:
    with pytest.raises(RefusalError) as raised:
        read_json(b'{"%s":1e400}' % (b"x" * 1_000_000))
    assert len(raised.value.message) + len(raised.value.field) < 1500
