"""The cache of asks: whatever is in it is as the database has it."""

from dataclasses import replace

import pytest

from askd.domain.asks import Ask, AskFilter, AskStatus, CancelAsks, CancelReason
from askd.domain.principals import Principal, PrincipalKind
from askd.store import cache as module
from askd.store.cache import AskCache
from askd.store.queries import Page

ME = Principal(kind=PrincipalKind.API_KEY, id="key_1")


def _ask(ask_id: str = "que_1", **fields: object) -> Ask:
    ask = Ask(
        id=ask_id, workspace_id="w", session_id="s", turn_id=None, status=AskStatus.PENDING, questions=(),
        created_at=1, created_revision=1, asked_by=ME, encoded_questions="x" * 100,
    )  # fmt: skip
    return replace(ask, **fields)  # type: ignore[arg-type]


PENDING = _ask()
RESOLVED = _ask(status=AskStatus.CANCELLED, resolved_revision=2)
COMMAND = CancelAsks(workspace_id="w", id="c", ask_ids=["que_1"], reason=CancelReason.EXPIRED, by=None)


def _cached(*asks: Ask) -> AskCache:
    cache = AskCache()
    with cache.reading() as found:
        found += asks
    return cache


def test_what_was_read_or_committed_is_here() -> None:
    cache = _cached(PENDING)
    assert cache.get("que_1") is PENDING
    with cache.changing([COMMAND]) as committed:
        committed.append(RESOLVED)
    assert cache.get("que_1") is RESOLVED
    assert cache.get("que_2") is None


def test_what_a_write_may_change_is_not_here_while_it_runs_nor_after_it_failed() -> None:
    cache = _cached(PENDING)

    def fail() -> None:
        with cache.changing([COMMAND]):
            assert cache.get("que_1") is None
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert cache.get("que_1") is None


def test_a_read_that_began_before_a_write_and_ended_after_it_leaves_nothing_old() -> None:
    cache = AskCache()
    with cache.reading() as found:
        with cache.changing([COMMAND]) as committed:
            committed.append(RESOLVED)
        found.append(PENDING)
    assert cache.get("que_1") is RESOLVED


def test_a_read_within_a_write_leaves_nothing() -> None:
    cache = AskCache()
    with cache.changing([COMMAND]):
        with cache.reading() as found:
            found.append(PENDING)
        assert cache.get("que_1") is None


def test_a_read_that_outlives_the_write_it_began_in_leaves_nothing_old() -> None:
    cache = AskCache()
    writing = cache.changing([COMMAND])
    committed = writing.__enter__()
    reading = cache.reading()
    found = reading.__enter__()
    found.append(PENDING)
    committed.append(RESOLVED)
    writing.__exit__(None, None, None)
    reading.__exit__(None, None, None)
    assert cache.get("que_1") is RESOLVED


def test_reads_at_the_same_time_each_leave_nothing_old() -> None:
    cache = AskCache()
    with cache.reading() as early:
        with cache.reading() as first:
            first.append(_ask("que_3"))
        with cache.changing([COMMAND]) as committed:
            committed.append(RESOLVED)
        with cache.reading() as late:
            late.append(RESOLVED)
        early.append(PENDING)
    assert cache.get("que_1") is RESOLVED
    assert cache.get("que_3") is not None


def test_a_read_that_began_before_payloads_were_erased_leaves_nothing() -> None:
    cache = _cached(PENDING)
    with cache.reading() as found:
        found.append(_ask("que_2"))
        cache.clear()
    assert (cache.get("que_1"), cache.get("que_2")) == (None, None)


def test_the_oldest_go_where_there_is_no_room_and_large_ones_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES", 250)
    cache = _cached(_ask("que_1"), _ask("que_2"))
    assert cache.get("que_1")  # used lately
    with cache.reading() as found:
        found += [_ask("que_3"), _ask("que_4", encoded_questions="x" * (module.LARGEST + 1))]
    assert [name for name in ("que_1", "que_2", "que_3", "que_4") if cache.get(name)] == ["que_1", "que_3"]


# --- pages ---

KEY = (AskFilter(workspace_id="w"), 0, 10)
PAGE = Page(asks=[PENDING], more=False)
OTHER = replace(COMMAND, workspace_id="v")


def _with_page() -> AskCache:
    cache = AskCache()
    cache.pages.put(cache.pages.of("w"), KEY, PAGE)
    return cache


def test_a_page_is_kept_until_a_write_to_its_workspace_begins() -> None:
    cache = _with_page()
    with cache.changing([OTHER]):
        assert cache.pages.of("w") == {KEY: PAGE}
    writing = cache.changing([COMMAND])
    writing.__enter__()
    assert cache.pages.of("w") == {}
    writing.__exit__(None, None, None)
    assert cache.pages.of("w") == {}


@pytest.mark.parametrize("begun", ["before", "within"])
@pytest.mark.parametrize("ended", ["within", "after"])
def test_a_page_that_was_read_while_a_write_ran_is_seen_by_nobody(begun: str, ended: str) -> None:
    cache = AskCache()
    pages = cache.pages.of("w")
    with cache.changing([COMMAND]):
        if begun == "within":
            pages = cache.pages.of("w")
        if ended == "within":
            cache.pages.put(pages, KEY, PAGE)
            assert cache.pages.of("w") == {}
    if ended == "after":
        cache.pages.put(pages, KEY, PAGE)
    assert cache.pages.of("w") == {}


def test_one_of_two_writes_that_ends_leaves_the_workspace_out() -> None:
    cache = AskCache()
    with cache.changing([COMMAND]):
        with cache.changing([COMMAND]):
            pass
        cache.pages.put(cache.pages.of("w"), KEY, PAGE)
        assert cache.pages.of("w") == {}


def test_clearing_takes_the_pages_and_those_being_read() -> None:
    cache = _with_page()
    pages = cache.pages.of("w")
    cache.clear()
    cache.pages.put(pages, KEY, PAGE)
    assert cache.pages.of("w") == {}


def test_few_pages_of_few_workspaces_are_kept_and_no_large_ones() -> None:
    cache = _with_page()
    large = _ask(encoded_questions="x" * (module.LARGEST_PAGE + 1))
    cache.pages.put(cache.pages.of("w"), (KEY[0], 1, 10), Page(asks=[large], more=False))
    assert cache.pages.of("w").keys() == {KEY}
    for after in range(1000):
        cache.pages.put(cache.pages.of("w"), (KEY[0], after, 1), PAGE)
    assert len(cache.pages.of("w")) <= module.PAGES
    for number in range(module.WORKSPACES):
        cache.pages.of(str(number))
    assert cache.pages.of("w") == {}


def test_what_changed_once_leaves_nothing_behind() -> None:
    cache = AskCache()
    with cache.changing([COMMAND]):
        pass
    assert not cache.pages._changing
