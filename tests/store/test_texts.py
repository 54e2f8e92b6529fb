"""Any Unicode text comes back exactly as it went in, U+0000 included (CONTRACT section 2)."""

import pytest
from tests.store.commands import answer, choosing, create, reject, text_question
from tests.store.databases import Store

from askd.domain.asks import AskFilter, ToolCall
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, TextPart, TextQuestion
from askd.store import keys
from askd.store.keys import ApiKey
from askd.store.queries import load_events, load_page

TEXTS = {
    "U+0000": "\x00",
    "U+0000 inside": "a\x00b",
    "blanks at the ends": " \t\n a \r\n ",
    "what Unicode would normalize": "e\u0301 \u00e9 \u212b \ufb01 \u1e9b\u0323",
    "beyond plane 0": "\U0001f600\U0010ffff",
    "noncharacters and controls": "\ufffe\uffff\x01\x1f\x7f\x85\u2028\u2029\ufeff",
    "what SQL and JSON quote": "'; DROP TABLE asks; -- \"\\u0000\\",
}
texts = pytest.mark.parametrize("text", list(TEXTS.values()), ids=list(TEXTS))


@texts
async def test_a_question_s_texts_come_back(store: Store, text: str) -> None:
    question = ChoiceQuestion(
        prompt=(TextPart(text=text), JsonPart(value={text: [text, None]})),
        title=f"x{text}",
        options=(Option(id=f"x{text}", label=text, value=text, description=text),),
    )
    ask = await store.ask(create(question, TextQuestion(prompt=(TextPart(text=text),))))
    stored = await store.get(ask.id)
    assert stored == ask
    assert stored.questions[0] == question


@texts
async def test_an_answer_s_texts_come_back(store: Store, text: str) -> None:
    question = ChoiceQuestion(
        prompt=(),
        options=(Option(id=f"x{text}", label="", value={text: text}),),
        multiple=True,
        allow_custom=True,
        allow_notes=True,
    )
    ask = await store.ask(create(question, text_question()))
    answered = await store.ask(answer(ask, choosing(f"x{text}", custom=text, notes=text), text))
    assert await store.get(ask.id) == answered
    assert answered.answers[1] == text


@texts
async def test_a_reject_reason_comes_back(store: Store, text: str) -> None:
    ask = await store.ask(create())
    rejected = await store.ask(reject(ask, text))
    stored = await store.get(ask.id)
    assert stored == rejected
    assert stored.reject_reason == text


@texts
async def test_a_request_id_is_found_again(store: Store, text: str) -> None:
    ask = await store.ask(create(request_id=text))
    assert ask.request_id == text
    assert await store.ask(create(request_id=text)) == ask
    assert (await store.ask(create(request_id=text + "x"))).id != ask.id


async def test_request_ids_that_differ_after_u0000_differ(store: Store) -> None:
    one, other = await store.asks(create(request_id="r\x00a"), create(request_id="r\x00b"))
    assert one.id != other.id


@texts
async def test_an_answer_id_is_known_again(store: Store, text: str) -> None:
    ask = await store.ask(create())
    answered = await store.ask(answer(ask, answer_id=text))
    assert answered.answer_id == text
    assert await store.ask(answer(ask, answer_id=text)) == answered
    assert (await store.refusal(answer(ask, answer_id=text + "x"))).code == "ask_already_resolved"


@texts
async def test_a_tool_s_ids_come_back(store: Store, text: str) -> None:
    tool = ToolCall(message_id=text, call_id=text)
    ask = await store.ask(create(tool=tool))
    stored = await store.get(ask.id)
    assert stored is not None
    assert stored.tool == tool


async def test_a_tool_without_ids_is_a_tool(store: Store) -> None:
    with_tool, without = await store.asks(create(tool=ToolCall(message_id="", call_id="")), create())
    assert with_tool.tool is not None
    assert [await store.get(ask.id) for ask in (with_tool, without)] == [with_tool, without]


@texts
async def test_a_key_s_name_comes_back(store: Store, text: str) -> None:
    key = ApiKey(id="key_1", name=text, grants=frozenset(), secret_hash=b"\x00\xff", created_at=1)
    await store.database.write(lambda connection: keys.insert(connection, key))
    assert await store.read(lambda connection: keys.load(connection, "key_1")) == key


@pytest.mark.parametrize("name", ["a/b", "%2F", "é", "e\u0301", "a b", "'", "\U0001f600", "x" * 127, "A", "\x85x"])
async def test_a_place_s_name_is_exactly_that(store: Store, name: str) -> None:
    ask = await store.ask(create(workspace=name, session=name, turn=name))
    await store.asks(create(workspace=name, session=name + "x", turn="a"), create(workspace=name + "x", session=name))
    query = AskFilter(workspace_id=name, session_id=name, turn_id=name)
    page = await store.read(lambda connection: load_page(connection, query, 0, 10))
    assert page.asks == [ask]
    found = await store.read(lambda connection: load_events(connection, query, 0))
    assert [event.ask for event in found.events] == [ask]
    assert (ask.workspace_id, ask.session_id, ask.turn_id) == (name, name, name)
