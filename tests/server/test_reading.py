"""GetAsk and ListAsks over the wire (CONTRACT section 5)."""

import base64
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.clients import ANSWERED, CANCELLED, MIB, PENDING, REJECTED, Client, refusal, refusal_of
from tests.questions import chosen, json_question, text, text_question
from tests.servers import served

from askd.domain.asks import AskFilter
from askd.service.cursors import make_cursor
from askd.v1 import ask_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def ids(client: Client, **fields: Any) -> list[str]:
    return [ask.id for ask in await client.list_all(**fields)]


@pytest.mark.parametrize("ask_id", ["", "que_", "que_01arz3ndektsv4rrffq69g5fav", "x" * 100_000, "\x00", "%27--", "ё"])
async def test_an_unknown_id_of_any_form_is_not_found(admin: Client, ask_id: str) -> None:
    refused = await refusal(admin.get(ask_id))
    assert (refused.status, refused.reason) == (grpc.StatusCode.NOT_FOUND, "not_found")
    assert refused.resource is not None
    kind, name = refused.resource
    assert kind == "ask"
    assert name == ask_id or (name.endswith("…") and ask_id.startswith(name[:-1]))


async def test_an_id_is_matched_exactly(admin: Client) -> None:
    ask = await admin.ask()
    for other in (ask.id.upper(), f" {ask.id}", f"{ask.id}\x00", ask.id[:-1]):
        assert (await refusal(admin.get(other))).reason == "not_found"


async def test_a_list_is_in_order_of_creation(admin: Client) -> None:
    asks = [await admin.ask(session_id=f"s{number % 3}") for number in range(10)]
    assert await admin.list_all() == asks
    assert await admin.list_all(limit=3) == asks


async def test_an_unused_workspace_is_an_empty_list(admin: Client) -> None:
    page = await admin.page(workspace_id="unused")
    assert not page.asks
    assert not page.next_cursor


async def test_filters_keep_sessions_turns_and_states(admin: Client) -> None:
    asks = {
        (session, turn, status): (await admin.ask(session_id=session, turn_id=turn)).id
        for session in ("s", "t")
        for turn in ("", "t")
        for status in (PENDING, ANSWERED, REJECTED, CANCELLED)
    }
    resolve = {ANSWERED: admin.answer, REJECTED: admin.reject, CANCELLED: admin.cancel}
    for (_, _, status), ask_id in asks.items():
        if status in resolve:
            await resolve[status](ask_id)
    for session in ("", "t", "u"):
        for turn in ("", "t"):
            for statuses in ([], [PENDING], [CANCELLED, ANSWERED, ANSWERED]):
                kept = [
                    ask_id
                    for key, ask_id in asks.items()
                    if session in ("", key[0]) and turn in ("", key[1]) and (not statuses or key[2] in statuses)
                ]
                fields = {"session_id": session, "turn_id": turn, "statuses": statuses}
                assert await ids(admin, **fields, limit=3) == kept


async def test_a_page_has_50_asks_unless_told_otherwise(admin: Client) -> None:
    for _ in range(101):
        await admin.ask()
    assert [len(page.asks) for page in await admin.pages()] == [50, 50, 1]
    assert [len(page.asks) for page in await admin.pages(limit=100)] == [100, 1]
    assert [len(page.asks) for page in await admin.pages(limit=100, session_id="s")] == [100, 1]


async def test_the_last_page_has_no_cursor_though_it_is_full(admin: Client) -> None:
    for _ in range(4):
        await admin.ask()
    assert [len(page.asks) for page in await admin.pages(limit=2)] == [2, 2]


@pytest.mark.parametrize("limit", [-1, 101, -(2**31), 2**31 - 1])
async def test_a_limit_is_1_to_100(admin: Client, limit: int) -> None:
    refused = await refusal(admin.page(limit=limit))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("limit",))


@pytest.mark.parametrize("statuses", [[0], [5], [-1], [PENDING, 2**31 - 1]])
async def test_an_unknown_status_is_refused(admin: Client, statuses: list[int]) -> None:
    refused = await refusal(admin.page(statuses=statuses))
    assert (refused.status, refused.reason) == (INVALID, "invalid_arguments")
    assert refused.fields == (f"statuses[{len(statuses) - 1}]",)


@pytest.mark.parametrize("field", ["session_id", "turn_id"])
async def test_a_filter_holds_identifiers(admin: Client, field: str) -> None:
    for identifier in (" ", "x" * 129, "\x00"):
        assert (await refusal(admin.page(**{field: identifier}))).fields == (field,)


# --- cursors ---


async def cursor_of(client: Client, **fields: Any) -> str:
    """The cursor after the first of the asks that a query finds."""
    cursor = (await client.page(limit=1, **fields)).next_cursor
    assert cursor
    return cursor


async def test_a_cursor_belongs_to_its_query(admin: Client) -> None:
    for workspace in ("v", "w"):
        for _ in range(2):
            await admin.ask(workspace_id=workspace, turn_id="t")
    queries: list[dict[str, Any]] = [
        {},
        {"workspace_id": "v"},
        {"session_id": "s"},
        {"session_id": "s", "turn_id": "t"},
        {"turn_id": "t"},
        {"statuses": [PENDING]},
        {"statuses": [PENDING, ANSWERED]},
    ]
    for one in queries:
        cursor = await cursor_of(admin, **one)
        for other in queries:
            if one is other:
                assert len((await admin.page(**other, cursor=cursor)).asks) == 1
                continue
            refused = await refusal(admin.page(**other, cursor=cursor))
            assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("cursor",))


async def test_a_query_is_the_same_however_its_states_are_spelled(admin: Client) -> None:
    for _ in range(2):
        await admin.ask()
    cursor = await cursor_of(admin, statuses=[PENDING, ANSWERED])
    page = await admin.page(statuses=[ANSWERED, PENDING, PENDING], cursor=cursor, limit=7)
    assert [ask.created_revision for ask in page.asks] == [2]


async def test_a_query_is_the_same_whether_its_workspace_is_named(admin: Client) -> None:
    for _ in range(2):
        await admin.ask(workspace_id="default")
    cursor = await cursor_of(admin, workspace_id="")
    assert len((await admin.page(workspace_id="default", cursor=cursor)).asks) == 1


async def test_a_damaged_cursor_is_refused(admin: Client) -> None:
    for _ in range(2):
        await admin.ask()
    cursor = await cursor_of(admin)
    flipped = [cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor) - 1)]
    for damaged in [*flipped, cursor[:-1], cursor + "A", "x", "ё", "\x00", "=", "x" * 100_000]:
        refused = await refusal(admin.page(cursor=damaged))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("cursor",)), damaged


@pytest.mark.parametrize("revision", [2**63 - 1, 2**63, 2**64 - 1])
async def test_a_forged_cursor_is_an_empty_page_or_refused(admin: Client, revision: int) -> None:
    await admin.ask()
    cursor = make_cursor(AskFilter(workspace_id="w"), revision)
    try:
        page = await admin.page(cursor=cursor)
    except grpc.aio.AioRpcError as error:
        assert refusal_of(error).fields == ("cursor",)  # noqa: PT017  # either will do
    else:
        assert not page.asks


async def test_a_cursor_is_opaque_and_no_secret(admin: Client) -> None:
    for _ in range(2):
        await admin.ask(session_id="hidden")
    cursor = await cursor_of(admin, session_id="hidden")
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert b"hidden" not in base64.urlsafe_b64decode(cursor + "==")


async def test_a_cursor_works_after_a_restart(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        asks = [await first.admin.ask() for _ in range(5)]
        cursor = (await first.admin.page(limit=2)).next_cursor
    async with served(tmp_path / "data", environment=database_settings) as second:
        await second.admin.cancel(asks[3].id)
        page = await second.admin.page(cursor=cursor)
    assert [ask.id for ask in page.asks] == [ask.id for ask in asks[2:]]


@pytest.mark.parametrize("fields", [{}, {"statuses": [PENDING]}, {"session_id": "s"}])
async def test_pages_neither_skip_nor_repeat_while_asks_come_and_go(admin: Client, fields: dict[str, Any]) -> None:
    asks = [await admin.ask() for _ in range(20)]
    seen: list[ask_pb2.AskState] = []
    cursor = ""
    while cursor or not seen:
        page = await admin.page(limit=3, cursor=cursor, **fields)
        seen += page.asks
        cursor = page.next_cursor
        await admin.cancel(seen[-1].id)
        if len(seen) < 30:
            await admin.ask()
    revisions = [ask.created_revision for ask in seen]
    assert revisions == sorted(set(revisions))
    assert [ask.id for ask in seen[:20]] == [ask.id for ask in asks]
    assert len(seen) > len(asks)


# --- sizes ---


async def test_a_page_ends_early_where_its_asks_are_large(admin: Client) -> None:
    asks = [await admin.ask(*[text_question("x" * 250_000)] * 4) for _ in range(7)]
    pages = await admin.pages(limit=100)
    assert all(page.ByteSize() <= 3 * MIB for page in pages)
    assert [ask.id for page in pages for ask in page.asks] == [ask.id for ask in asks]
    assert len(pages) < len(asks)


async def test_pages_and_watches_stay_small_where_json_is_small_and_protobuf_large(admin: Client) -> None:
    # A number is two bytes of JSON here, and eleven of protobuf.
    question = json_question([0] * 80_000)
    asks = [(await admin.ask(question)).id for _ in range(4)]
    pages = await admin.pages(limit=100)
    assert all(page.ByteSize() <= 3 * MIB for page in pages)
    assert [ask.id for page in pages for ask in page.asks] == asks
    assert len(pages) == 2
    for fields in ({}, {"after_revision": 0}):
        async with admin.watch(**fields) as watcher:  # which checks the size of each response
            assert [event.ask.id for event in await watcher.until_synced()] == asks


async def test_an_ask_of_the_largest_size_with_its_answers_is_a_page(admin: Client) -> None:
    ask = await admin.ask(*[text_question("x" * 32_600)] * 32)
    await admin.answer(ask.id, *[text("\x01" * 5_460)] * 32)
    other = await admin.ask()
    assert await ids(admin) == [ask.id, other.id]
    assert (await admin.get(ask.id)).ByteSize() > MIB


# --- texts ---

TEXTS = [
    "\x00", "a\x00b", "\ufeff", "\ufffe\uffff", "e\u0301\u00e9", "\u202e\u2066", "😀👩‍👩‍👧", "\r\n\t ", "\u2028\u2029",
    "\U0010ffff", "\ud7ff\ue000", "'; --", '\\"\\u0000', "%00", "ß" * 300,
]  # fmt: skip


async def test_any_unicode_text_comes_back_exactly(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        question = ask_pb2.Question(
            prompt=[ask_pb2.ContentPart(text=text) for text in TEXTS],
            title=f"x{TEXTS[1]}",
            choice=ask_pb2.ChoiceQuestion(
                options=[
                    ask_pb2.ChoiceOption(id=text[:20], label=text[:20], description=text[:20], value=value)
                    for text in TEXTS
                    if (value := json_question({text: [text]}).prompt[0].json)
                ],
                allow_custom=True,
                allow_notes=True,
            ),
        )
        tool = ask_pb2.ToolCall(message_id=TEXTS[1], call_id=TEXTS[6])
        ask = await first.admin.ask(question, tool=tool, request_id=TEXTS[0])
        everything = "".join(TEXTS)
        submission = chosen(custom=everything, notes=everything)
        receipt = await first.admin.answer(ask.id, submission, answer_id=TEXTS[0])
        rejected = await first.admin.reject((await first.admin.ask()).id, reason=everything)
        key = await first.admin.create_key(name=TEXTS[1])
    assert (ask.questions[0], ask.tool) == (question, tool)
    assert receipt.answers[0].choice.custom == receipt.answers[0].choice.notes == everything
    assert rejected.reject_reason == everything
    assert key.key.name == TEXTS[1]
    async with served(tmp_path / "data", environment=database_settings) as second:
        stored = await second.admin.get(ask.id)
        assert list(stored.questions) == [question]
        assert stored.answers == receipt.answers
        assert await second.admin.answer(ask.id, submission, answer_id=TEXTS[0]) == receipt
        assert (await second.admin.get(rejected.id)).reject_reason == everything
        async with second.admin.watch(after_revision=0) as watcher:
            events = await watcher.until_synced()
        assert events[0].ask.questions[0] == question


@pytest.mark.parametrize(
    "value",
    [0, -0.0, 1e-7, 1e-5, 1.5, 5e-324, -(2.0**53 - 1), 2.0**53 - 1, 1.7e15, 0.1, [], {}, [[]], {"": None}, {"\x00": 1}],
)
async def test_any_json_value_comes_back_exactly(admin: Client, value: Any) -> None:
    ask = await admin.ask(json_question({"value": value}))
    stored = await admin.get(ask.id)
    assert stored.questions[0] == json_question({"value": value + 0.0 if isinstance(value, float) else value})
