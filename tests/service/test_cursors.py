"""Cursors of lists: opaque, and bound to their query (CONTRACT section 5)."""

import base64
import string
from collections.abc import Callable
from itertools import permutations
from urllib.parse import quote

import pytest

from askd.domain.asks import AskFilter, AskStatus
from askd.domain.errors import AskdError, Code
from askd.service.cursors import make_cursor, read_cursor

PENDING = frozenset({AskStatus.PENDING})
SOME = frozenset({AskStatus.PENDING, AskStatus.REJECTED})
QUERIES = [
    AskFilter(workspace_id="w"),
    AskFilter(workspace_id="v"),
    AskFilter(workspace_id="w", session_id="s"),
    AskFilter(workspace_id="w", session_id="s", turn_id="t"),
    AskFilter(workspace_id="w", session_id="t", turn_id="s"),
    AskFilter(workspace_id="w", session_id="st"),
    AskFilter(workspace_id="ws", turn_id="t"),
    AskFilter(workspace_id="w", statuses=PENDING),
    AskFilter(workspace_id="w", statuses=SOME),
    AskFilter(workspace_id="w", session_id="pending"),
    AskFilter(workspace_id="w", turn_id="pending"),
    AskFilter(workspace_id='w", "s', session_id="é\U0001f600"),
]
QUERY = QUERIES[3]
ALPHABET = string.ascii_letters + string.digits + "-_"
REVISIONS = [0, 1, 255, 256, 2**31, 2**53, 2**63 - 1]


def refused(query: AskFilter, cursor: str) -> bool:
    """Whether a cursor is refused as the contract says."""
    try:
        read_cursor(query, cursor)
    except AskdError as error:
        return (error.code, error.field) == (Code.INVALID_ARGUMENTS, "cursor")
    return False


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_a_cursor_says_where_its_query_goes_on(query: AskFilter) -> None:
    assert [read_cursor(query, make_cursor(query, revision)) for revision in REVISIONS] == REVISIONS


def test_a_cursor_is_the_same_after_a_restart() -> None:
    statuses = frozenset(sorted(SOME, reverse=True))
    assert make_cursor(AskFilter(workspace_id="w", statuses=statuses), 7) == make_cursor(QUERIES[8], 7)
    assert make_cursor(QUERIES[0], 7) == "AAAAAAAAAAc7zldracgSZ1jJyEQ"


def test_a_cursor_of_another_query_is_refused() -> None:
    for one, other in permutations(QUERIES, 2):
        assert refused(other, make_cursor(one, 7)), (one, other)


def test_a_damaged_cursor_is_refused_wherever_the_damage_is() -> None:
    cursor = make_cursor(QUERY, 7)
    for place in range(len(cursor)):
        for character in ALPHABET:
            damaged = cursor[:place] + character + cursor[place + 1 :]
            assert damaged == cursor or refused(QUERY, damaged), damaged
        assert refused(QUERY, cursor[:place] + cursor[place + 1 :])
        assert refused(QUERY, cursor[:place])


@pytest.mark.parametrize(
    "change",
    [
        lambda cursor: cursor + "=",
        lambda cursor: cursor + "A",
        lambda cursor: f" {cursor}",
        lambda cursor: f"{cursor}\n",
        lambda cursor: cursor + cursor,
        lambda cursor: cursor.swapcase(),
    ],
    ids=["padded", "longer", "after a blank", "before a line's end", "doubled", "in the other case"],
)
def test_what_was_a_cursor_is_refused(change: Callable[[str], str]) -> None:
    assert refused(QUERY, change(make_cursor(QUERY, 7)))


@pytest.mark.parametrize(
    "cursor", ["nonsense", "é", "\x00", "=", "A" * 10_000, base64.urlsafe_b64encode(bytes(20)).decode()]
)
def test_what_never_was_a_cursor_is_refused(cursor: str) -> None:
    assert refused(QUERY, cursor)


@pytest.mark.parametrize("revision", [2**63, 2**64 - 1])
def test_a_forged_cursor_beyond_all_revisions_is_refused(revision: int) -> None:
    """No database has such a number, so asking it with one would be a fault of the server's."""
    assert refused(QUERY, make_cursor(QUERY, revision))


def test_a_cursor_can_stand_in_a_url_as_it_is() -> None:
    for revision in REVISIONS:
        cursor = make_cursor(QUERY, revision)
        assert quote(cursor, safe="") == cursor
