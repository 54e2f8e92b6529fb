"""A batch of commands: decided in order, written whole or not at all (CONTRACT sections 1, 3 and 4)."""

import asyncio
from itertools import permutations
from typing import Any

import pytest
from tests.store.commands import (
    ANN,
    BOB,
    access,
    answer,
    choice_question,
    choosing,
    create,
    draft,
    reject,
    text_question,
    withdraw,
)
from tests.store.databases import Store, ask_of, codes, error_of
from tests.store.histories import Workload, kinds

from askd.domain import limits
from askd.domain.asks import AskStatus, CancelReason, EventType, ResolveAsk, ToolCall
from askd.domain.errors import Code, content, invalid
from askd.domain.principals import Role
from askd.domain.sessions import Command
from askd.store.batch import Applied
from askd.store.database import open_database
from askd.store.tables import metadata

seeds = pytest.mark.parametrize("seed", range(3))


# --- decisions in order ---


async def test_of_two_answers_in_one_batch_the_first_wins_and_the_second_is_told_so(store: Store) -> None:
    ask = await store.ask(create())
    first = answer(ask, "yes", answer_id="1", by=access(by=ANN))
    second = answer(ask, "no", answer_id="2", by=access(by=BOB))
    applied = await store.apply(first, second)
    winner, loser = ask_of(applied.outcomes[0]), error_of(applied.outcomes[1])
    assert winner.answers == ("yes",)
    assert loser.code is Code.ASK_ALREADY_RESOLVED
    assert loser.metadata["status"] == "answered"
    assert loser.metadata["resolved_revision"] == "2"
    assert loser.metadata["resolved_by"] == str(ANN)
    assert kinds(applied.events) == [EventType.ANSWERED]
    assert await store.get(ask.id) == winner


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_of_racing_resolutions_in_one_batch_the_first_wins(store: Store, order: tuple[int, ...]) -> None:
    ask = await store.ask(create())
    ways: list[Command] = [answer(ask), reject(ask), withdraw(ask)]
    applied = await store.apply(*(ways[number] for number in order))
    won = [AskStatus.ANSWERED, AskStatus.REJECTED, AskStatus.CANCELLED][order[0]]
    assert codes(applied.outcomes) == ["done", Code.ASK_ALREADY_RESOLVED, Code.ASK_ALREADY_RESOLVED]
    assert [error_of(outcome).metadata["status"] for outcome in applied.outcomes[1:]] == [won, won]
    assert [event.ask.status for event in applied.events] == [won]


async def test_an_ask_may_be_created_and_resolved_in_one_batch(store: Store) -> None:
    command = create(text_question("Why?"))
    applied = await store.apply(command, answer(command, "because"))
    assert kinds(applied.events) == [EventType.ASKED, EventType.ANSWERED]
    assert [event.revision for event in applied.events] == [1, 2]
    assert [event.ask.status for event in applied.events] == [AskStatus.PENDING, AskStatus.ANSWERED]
    stored = await store.get(command.ask_id)
    assert stored == ask_of(applied.outcomes[1])
    assert (stored.created_revision, stored.resolved_revision, stored.answers) == (1, 2, ("because",))


async def test_a_request_repeated_in_one_batch_is_asked_once(store: Store) -> None:
    first, second = create(request_id="r"), create(request_id="r")
    applied = await store.apply(first, second)
    assert [ask_of(outcome).id for outcome in applied.outcomes] == [first.ask_id, first.ask_id]
    assert kinds(applied.events) == [EventType.ASKED]
    assert len((await store.rows())["asks"]) == 1


async def test_a_request_repeated_in_one_batch_after_its_answer_is_told_the_answer(store: Store) -> None:
    first = create(request_id="r")
    applied = await store.apply(first, answer(first, "yes"), create(request_id="r"))
    assert ask_of(applied.outcomes[2]).answers == ("yes",)


async def test_a_request_id_used_in_one_batch_for_other_contents_is_a_conflict(store: Store) -> None:
    applied = await store.apply(
        create(text_question("one"), request_id="r"), create(text_question("2"), request_id="r")
    )
    assert codes(applied.outcomes) == ["done", Code.REQUEST_ID_CONFLICT]


async def test_a_request_id_belongs_to_its_workspace(store: Store) -> None:
    one, other = await store.asks(create(request_id="r"), create(workspace="v", request_id="r"))
    assert one.id != other.id


async def test_an_answer_repeated_in_one_batch_is_one_answer(store: Store) -> None:
    ask = await store.ask(create(choice_question(multiple=True)))
    applied = await store.apply(answer(ask, choosing("a", "c")), answer(ask, choosing("c", "a")))
    first, again = map(ask_of, applied.outcomes)
    assert first == again
    assert kinds(applied.events) == [EventType.ANSWERED]


async def test_a_refused_command_does_not_hinder_those_around_it(store: Store) -> None:
    wrong = create(wrong=content("questions", "none"))
    commands: list[Command] = [create(), answer("que_unknown"), wrong, create()]
    applied = await store.apply(*commands)
    assert codes(applied.outcomes) == ["done", Code.NOT_FOUND, Code.INVALID_ARGUMENTS, "done"]
    assert [event.revision for event in applied.events] == [1, 2]


# --- retries of callers, also after a restart ---


async def test_a_request_repeated_after_a_restart_finds_its_ask(url: str) -> None:
    before, after = open_database(url), None
    command = create(choice_question(), turn="t", tool=ToolCall(message_id="m", call_id=""), request_id="r")
    asked = await Store(database=before).ask(command)
    await before.close()
    after = open_database(url)
    again = create(choice_question(), turn="t", tool=ToolCall(message_id="m", call_id=""), request_id="r")
    applied = await Store(database=after).apply(again)
    await after.close()
    assert ask_of(applied.outcomes[0]) == asked
    assert not applied.events


async def test_an_answer_repeated_after_a_restart_gets_its_receipt(url: str) -> None:
    before = open_database(url)
    ask = await Store(database=before).ask(create(choice_question(multiple=True, custom=True)))
    receipt = await Store(database=before).ask(answer(ask, choosing("c", "a", custom=" ")))
    await before.close()
    after = open_database(url)
    applied = await Store(database=after).apply(answer(ask, choosing("a", "c", custom=" ")))
    await after.close()
    assert ask_of(applied.outcomes[0]) == receipt
    assert not applied.events


# --- what a refusal leaves ---

OTHER = access(workspace="v")


REFUSED: dict[str, tuple[Code, list[Command]]] = {
    "an unknown ask": (Code.NOT_FOUND, [answer("que_unknown"), reject("anything"), withdraw("")]),
    "another workspace's ask": (Code.NOT_FOUND, [answer("PENDING", by=OTHER), withdraw("PENDING", by=OTHER)]),
    "another session's or turn's": (
        Code.NOT_FOUND,
        [answer("PENDING", session="r"), answer("PENDING", session="s", turn="u")],
    ),
    "no role to answer": (
        Code.PERMISSION_DENIED,
        [answer("PENDING", by=access(Role.ASKER)), reject("PENDING", by=access(Role.VIEWER))],
    ),
    "no role to take back": (Code.PERMISSION_DENIED, [withdraw("PENDING", by=access(Role.ANSWERER))]),
    "a resolved ask": (
        Code.ASK_ALREADY_RESOLVED,
        [answer("ANSWERED", answer_id="other"), reject("ANSWERED"), withdraw("ANSWERED")],
    ),
    "no valid answer": (
        Code.ANSWER_INVALID,
        [answer("PENDING", "yes", "and no"), answer("PENDING", choosing("a")), answer("PENDING", "x" * 65_535)],
    ),
    "a wrong answer id": (Code.INVALID_ARGUMENTS, [answer("PENDING", answer_id=invalid("answer_id", "empty"))]),
    "a wrong reason": (Code.INVALID_ARGUMENTS, [reject("PENDING", invalid("reason", "too long"))]),
    "an answer id used otherwise": (
        Code.ANSWER_ID_CONFLICT,
        [answer("ANSWERED", "no", answer_id="a"), answer("ANSWERED", answer_id="a", by=access(by=BOB))],
    ),
    "wrong questions": (Code.CONTENT_LIMIT_EXCEEDED, [create(wrong=content("", "", Code.CONTENT_LIMIT_EXCEEDED))]),
    "a request id used otherwise": (
        Code.REQUEST_ID_CONFLICT,
        [
            create(text_question("other"), turn="t", request_id="r"),
            create(turn="u", request_id="r"),
            create(session="r", turn="t", request_id="r"),
            create(turn="t", tool=ToolCall(message_id="", call_id=""), request_id="r"),
            create(turn="t", request_id="r", wrong=invalid("", "")),
        ],
    ),
}


@pytest.mark.parametrize(("code", "commands"), list(REFUSED.values()), ids=list(REFUSED))
async def test_a_refused_command_writes_nothing_and_announces_nothing(
    store: Store, code: Code, commands: list[Command]
) -> None:
    pending, answered, _ = await store.asks(create(turn="t", request_id="r"), create(), create(workspace="v"))
    await store.ask(answer(answered, answer_id="a"))
    before = await store.rows()
    ids = {"PENDING": pending.id, "ANSWERED": answered.id}
    applied = await store.apply(*(_aimed(command, ids) for command in commands))
    assert codes(applied.outcomes) == [code] * len(commands)
    assert not applied.events
    assert await store.rows() == before


def _aimed(command: Command, ids: dict[str, str]) -> Command:
    """The command on the ask that was made for the test."""
    if not isinstance(command, ResolveAsk) or command.ask_id not in ids:
        return command
    fields: dict[str, Any] = {name: getattr(command, name) for name in command.__dataclass_fields__}
    return ResolveAsk(**{**fields, "ask_id": ids[command.ask_id]})


async def test_a_refused_answer_leaves_the_answer_id_unused(store: Store) -> None:
    ask = await store.ask(create())
    assert (await store.refusal(answer(ask, "yes", "and no"))).code is Code.ANSWER_INVALID
    assert (await store.ask(answer(ask, "yes"))).answers == ("yes",)


# --- the turn's budget ---

COST = draft(text_question("x" * 50)).questions.encoded_size


async def test_a_turn_s_budget_counts_across_a_batch_and_across_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TURN_QUESTIONS", 4 * COST)
    question = text_question("x" * 50)
    await store.asks(create(question, turn="t"))
    applied = await store.apply(*(create(question, turn="t") for _ in range(4)))
    assert codes(applied.outcomes) == ["done"] * 3 + [Code.OUTPUT_BUDGET_EXCEEDED]
    assert (await store.refusal(create(turn="t"))).code is Code.OUTPUT_BUDGET_EXCEEDED


async def test_a_turn_s_budget_is_met_to_the_byte(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_QUESTIONS", 2 * COST)
    one_more = create(text_question("x" * 51), turn="t")
    applied = await store.apply(create(text_question("x" * 50), turn="t"), one_more)
    assert codes(applied.outcomes) == ["done", Code.OUTPUT_BUDGET_EXCEEDED]
    await store.ask(create(text_question("x" * 50), turn="t"))


async def test_a_turn_s_budget_is_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_QUESTIONS", COST)
    question = text_question("x" * 50)
    others = [create(question, turn="u"), create(question, session="r", turn="t"), create(question, turn=None)]
    applied = await store.apply(
        create(question, turn="t"), *others, create(question, turn=None), create(question, workspace="v", turn="t")
    )
    assert codes(applied.outcomes) == ["done"] * 6


async def test_only_what_is_stored_counts_towards_a_budget(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_QUESTIONS", 2 * COST)
    question = text_question("x" * 50)
    replays = [create(question, turn="t", request_id="r") for _ in range(3)]
    too_much = create(text_question("x" * 500), turn="t")
    conflict = create(text_question("x" * 49), turn="t", request_id="r")
    applied = await store.apply(*replays, too_much, conflict, create(question, turn="t"))
    assert codes(applied.outcomes) == [
        *["done"] * 3, Code.OUTPUT_BUDGET_EXCEEDED, Code.REQUEST_ID_CONFLICT, "done",
    ]  # fmt: skip


async def test_a_replay_is_told_its_ask_though_the_budget_is_spent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = await store.ask(create(turn="t", request_id="r"))
    monkeypatch.setattr(limits, "TURN_QUESTIONS", 0)
    assert await store.ask(create(turn="t", request_id="r")) == ask


# --- a batch of which nobody knows whether it was committed ---


def mixed_batch(ask_ids: list[str]) -> list[Command]:
    """Commands of every kind that succeed, and some that are refused."""
    new = create(text_question("new"), turn="t")
    return [
        create(turn="t"),
        create(turn="t", request_id="r"),
        create(session="r", request_id="known"),
        create(workspace="v", request_id="r"),
        answer(ask_ids[0], "yes"),
        reject(ask_ids[1], "no"),
        withdraw(ask_ids[2]),
        answer(ask_ids[2], "late"),
        new,
        reject(new),
        answer("que_unknown"),
    ]


async def prepared(store: Store) -> list[Command]:
    asks = await store.asks(create(), create(), create(), create(session="r", request_id="known"))
    return mixed_batch([ask.id for ask in asks])


async def retried(store: Store, commands: list[Command]) -> list[Applied]:
    """One command at a time, as the writer does it."""
    return [await store.apply(command, uncertain=True) for command in commands]


async def test_a_retry_of_a_committed_batch_changes_nothing(store: Store) -> None:
    commands = await prepared(store)
    await store.apply(*commands)
    before = await store.rows()
    await retried(store, commands)
    assert await store.rows() == before


async def test_a_retry_of_a_committed_batch_has_the_same_outcomes(store: Store) -> None:
    commands = await prepared(store)
    applied = await store.apply(*commands)
    again = [outcome for retry in await retried(store, commands) for outcome in retry.outcomes]
    assert codes(again) == codes(applied.outcomes)
    told = [ask_of(outcome) for outcome in applied.outcomes if codes([outcome]) == ["done"]]
    told_again = [ask_of(outcome) for outcome in again if codes([outcome]) == ["done"]]
    assert [ask.id for ask in told_again] == [ask.id for ask in told]
    assert told_again == [await store.get(ask.id) for ask in told]


async def test_a_retry_of_a_committed_batch_tells_the_same_events(store: Store) -> None:
    commands = await prepared(store)
    applied = await store.apply(*commands)
    again = [event for retry in await retried(store, commands) for event in retry.events]
    assert again == applied.events


async def test_a_retry_of_a_batch_that_was_not_committed_does_it(store: Store) -> None:
    commands = await prepared(store)
    applied = await retried(store, commands)
    assert [codes(retry.outcomes) for retry in applied] == [
        *[["done"]] * 7, [Code.ASK_ALREADY_RESOLVED], ["done"], ["done"], [Code.NOT_FOUND],
    ]  # fmt: skip
    events = [event for retry in applied for event in retry.events]
    assert [event.revision for event in events if event.ask.workspace_id == "w"] == list(range(5, 12))


async def test_a_retry_finds_its_ask_though_others_have_answered_it_since(store: Store) -> None:
    command = create(turn="t")
    await store.apply(command)
    answered = await store.ask(answer(command))
    applied = await store.apply(command, uncertain=True)
    assert ask_of(applied.outcomes[0]) == answered
    assert [(event.type, event.revision, event.ask.status) for event in applied.events] == [
        (EventType.ASKED, 1, AskStatus.PENDING)
    ]


async def test_a_retry_that_lost_to_another_is_told_so(store: Store) -> None:
    ask = await store.ask(create())
    await store.ask(reject(ask))
    assert codes((await store.apply(withdraw(ask), uncertain=True)).outcomes) == [Code.ASK_ALREADY_RESOLVED]


async def test_a_retry_charges_its_turn_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_QUESTIONS", 2 * COST)
    command = create(text_question("x" * 50), turn="t")
    await store.apply(command)
    await store.apply(command, uncertain=True)
    await store.ask(create(text_question("x" * 50), turn="t"))


# --- revisions ---


@seeds
async def test_revisions_are_gapless_and_in_commit_order_in_every_workspace(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=40)  # the history refuses an event that is not its workspace's next
    for workspace in ("w", "v"):
        assert await store.revision(workspace) == workload.history.revision(workspace) > 10


async def test_a_batch_advances_each_of_its_workspaces_by_itself(store: Store) -> None:
    workspaces = ["w", "v", "u", "w", "v", "w"]
    asks = await store.asks(*(create(workspace=workspace) for workspace in workspaces))
    assert [ask.created_revision for ask in asks] == [1, 1, 1, 2, 2, 3]
    assert [await store.revision(workspace) for workspace in ("w", "v", "u", "t")] == [3, 2, 1, 0]


async def test_batches_committed_at_once_share_no_revision(store: Store) -> None:
    async def commit(number: int) -> Applied:
        return await store.apply(*(create(workspace="wv"[(number + place) % 2]) for place in range(3)))

    applied = await asyncio.gather(*map(commit, range(20)))
    for workspace in ("w", "v"):
        taken = [event.revision for one in applied for event in one.events if event.ask.workspace_id == workspace]
        assert sorted(taken) == list(range(1, 31))


async def test_a_batch_that_fails_leaves_nothing(store: Store) -> None:
    await store.ask(create())
    before = await store.rows()
    unstorable = create(session="\ud800")
    with pytest.raises(UnicodeEncodeError):
        await store.apply(create(turn="t", request_id="r"), create(workspace="v"), unstorable)
    assert await store.rows() == before


# --- what is stored ---


async def test_what_was_asked_comes_back_whole(store: Store) -> None:
    tool = ToolCall(message_id="message", call_id="")
    questions = [text_question("Why?"), choice_question("x", "y", multiple=True, custom=True, notes=True)]
    ask = await store.ask(create(*questions, session="s/1 %2F é", turn="t", tool=tool, request_id="r"))
    stored = await store.get(ask.id)
    assert stored == ask
    assert stored.questions == tuple(questions)
    assert (stored.session_id, stored.turn_id, stored.tool, stored.asked_by) == ("s/1 %2F é", "t", tool, ANN)
    assert stored.created_at == store.now


async def test_how_it_ended_comes_back_whole(store: Store) -> None:
    asks = await store.asks(*(create() for _ in range(4)))
    told = [
        await store.ask(answer(asks[0], "", by=access(by=BOB))),
        await store.ask(reject(asks[1], "no \x00")),
        await store.ask(reject(asks[2])),
        await store.ask(withdraw(asks[3])),
    ]
    assert told == [await store.get(ask.id) for ask in asks]
    assert [ask.status for ask in told] == [
        AskStatus.ANSWERED, AskStatus.REJECTED, AskStatus.REJECTED, AskStatus.CANCELLED,
    ]  # fmt: skip
    assert told[0].answers == ("",)
    assert told[0].resolved_by == BOB
    assert [ask.reject_reason for ask in told] == [None, "no \x00", None, None]
    assert told[3].cancel_reason is CancelReason.WITHDRAWN
    assert told[3].resolved_at == store.now


async def test_an_ask_at_its_limits_comes_back_whole(store: Store) -> None:
    questions = [text_question("x" * 32_600)] * 32
    ask = await store.ask(create(*questions))
    answered = await store.ask(answer(ask, *["y" * 32_600] * 32))
    assert await store.get(ask.id) == answered
    assert len(answered.encoded_answers) > 1_000_000


async def test_an_empty_batch_is_nothing(store: Store) -> None:
    applied = await store.apply()
    assert (list(applied.outcomes), list(applied.events)) == ([], [])


async def test_every_table_is_looked_at_by_the_tests_that_say_nothing_is_written(store: Store) -> None:
    assert set(await store.rows()) == set(metadata.tables)
