"""The suite itself: it notices what is wrong, and leaves no code of the contract out."""

import json
from typing import Any

import pytest
from tests.conformance.matching import check, filled
from tests.conformance.scenarios import scenarios

from askd.domain.errors import Code

#: Reserved for the day that records themselves are removed: no server sends it.
NEVER_SENT = {"revision_compacted"}


def test_every_code_of_the_contract_is_provoked() -> None:
    written = json.dumps([scenario for _, scenario in scenarios()])
    assert {code.value for code in Code if f'"{code.value}"' not in written} == NEVER_SENT


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, {"$any": True}], [1, None]),
        ({"a": {"$absent": True}, "b": None}, {"b": None}),
        ({"$match": "a+"}, "aa"),
        ({"$length": 2}, [1, 2]),
        ({"$not": {"$length": 2}}, [1]),
    ],
)
def test_a_result_as_expected_is_taken(expected: Any, actual: Any) -> None:
    check(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": {"$any": True}}, {}),
        ({"a": {"$absent": True}}, {"a": None}),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ({"$match": "a"}, "aa"),
        ({"$length": 2}, [1]),
        ({"$not": {"$length": 1}}, [1]),
        ({"a": {}}, {"a": []}),
    ],
)
def test_any_other_result_is_noticed(expected: Any, actual: Any) -> None:
    with pytest.raises(AssertionError):
        check(expected, actual)


def test_variables_are_replaced_and_repetitions_written_out() -> None:
    given = {"a": "${n}", "b": "${n}-${key.x}", "c": {"$repeat": ["é", 3]}, "d": {"$repeat": [{"e": "${n}"}, 2]}}
    expected = {"a": 7, "b": "7-k", "c": "ééé", "d": [{"e": 7}, {"e": 7}]}
    assert filled(given, {"n": 7, "key.x": "k"}) == expected


def test_a_variable_that_nothing_was_bound_to_is_noticed() -> None:
    with pytest.raises(KeyError):
        filled("${ask}", {})
