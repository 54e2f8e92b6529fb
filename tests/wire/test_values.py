"""JSON values as protobuf and back."""

from typing import Any

import pytest
import rfc8785
from google.protobuf import struct_pb2
from hypothesis import given
from tests.domain.samples import content_refusal, nested
from tests.domain.strategies import examples, json_values

from askd.domain.canonical import check
from askd.domain.errors import Code
from askd.wire.values import from_proto, to_proto

INVALID = Code.INVALID_ARGUMENTS


def refused(message: struct_pb2.Value, field: str, *said: str) -> None:
    content_refusal(lambda: from_proto(message, "value"), INVALID, field, *said)


@given(json_values)
@examples(150)
def test_a_value_comes_back_as_it_went_in(value: Any) -> None:
    message = struct_pb2.Value.FromString(to_proto(value).SerializeToString())
    back = from_proto(message, "value")
    assert back == value
    assert rfc8785.dumps(back) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [None, False, True, 0, 0.5, "", [], {}, [None], {"": {}}])
def test_what_is_empty_is_still_set(value: Any) -> None:
    back = from_proto(to_proto(value), "value")
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize("number", [0, -1, 2**53 - 1, -(2**53) + 1])
def test_whole_numbers_read_as_integers(number: int) -> None:
    back = from_proto(struct_pb2.Value(number_value=float(number)), "value")
    assert (back, type(back)) == (number, int)


@pytest.mark.parametrize("number", [2.0**53, -1e300, float("inf"), float("nan")])
def test_numbers_that_are_no_legal_json_are_left_for_the_domain_to_refuse(number: float) -> None:
    back = from_proto(struct_pb2.Value(number_value=number), "value")
    content_refusal(lambda: check(back, "value"), INVALID, "value")


def test_an_unset_value_is_refused_at_every_level() -> None:
    refused(struct_pb2.Value(), "value", "required", "null")
    refused(to_list(struct_pb2.Value(null_value=struct_pb2.NULL_VALUE), struct_pb2.Value()), "value[1]", "required")
    unset_field = struct_pb2.Value()
    unset_field.struct_value.fields["a"].list_value.values.add()
    refused(unset_field, "value.a[0]", "required")


def to_list(*items: struct_pb2.Value) -> struct_pb2.Value:
    return struct_pb2.Value(list_value=struct_pb2.ListValue(values=items))


def test_20_levels_are_legal() -> None:
    assert from_proto(to_proto(nested(20)), "value") == nested(20)


def test_21_levels_are_refused_before_they_are_followed() -> None:
    refused(to_proto(nested(21)), "value" + ".in[0]" * 10, "20 levels")
    deep = struct_pb2.Value(bool_value=True)
    for _ in range(45):
        deep = to_list(deep)
    refused(deep, "value" + "[0]" * 20, "20 levels")
