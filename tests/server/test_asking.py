"""Ask and ValidateQuestion over the wire (CONTRACT sections 1, 2 and 3)."""

import asyncio
import math
import re
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from tests.clients import ANSWERED, MIB, PENDING, Client, grant, refusal, span
from tests.questions import choice_question, json_question, json_value, text_question
from tests.store.backends import BEFORE_THE_DATABASE

from askd.v1 import ask_pb2
from askd.v1 import ask_service_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TOOL = ask_pb2.ToolCall(message_id="msg_1", call_id="call_1")


def nested(levels: int) -> Any:
    value: Any = 0
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


async def test_an_ask_comes_back_as_it_was_asked(admin: Client) -> None:
    questions = [
        text_question("Why?", title="Reason"),
        json_question({"plan": [1, 2.5, None, True, "x"]}),
        choice_question("a", "b", title="Pick", multiple=True, allow_custom=True, allow_notes=True),
    ]
    before = time.time()
    ask = await admin.ask(*questions, turn_id="t", tool=TOOL)
    after = time.time()
    assert re.fullmatch(r"que_[0-9a-hjkmnp-tv-z]{26}", ask.id)
    assert before <= ask.created_at.ToMicroseconds() / 1e6 <= after
    expected = ask_pb2.AskState(
        id=ask.id,
        workspace_id="w",
        session_id="s",
        turn_id="t",
        status=PENDING,
        questions=questions,
        created_at=ask.created_at,
        tool=TOOL,
        created_revision=1,
        asked_by_api_key_id=await admin.key_id(),
    )
    assert ask == expected
    assert await admin.get(ask.id) == expected


async def test_what_was_not_given_is_unset(admin: Client) -> None:
    ask = await admin.ask()
    given = {field.name for field, _ in ask.ListFields()}
    assert given == {
        "id", "workspace_id", "session_id", "status", "questions", "created_at", "created_revision",
        "asked_by_api_key_id",
    }  # fmt: skip


async def test_each_workspace_counts_its_own_revisions(admin: Client) -> None:
    asks = [await admin.ask(workspace_id=workspace) for workspace in ("v", "w", "w", "v", "w")]
    assert [ask.created_revision for ask in asks] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("identifier", ["a/b", "50%", "ключ", "😀" * 32, "x" * 128, " a ", "..", "*"])
async def test_any_readable_text_of_128_bytes_is_an_identifier(admin: Client, identifier: str) -> None:
    ask = await admin.ask(workspace_id=identifier, session_id=identifier, turn_id=identifier)
    assert (ask.workspace_id, ask.session_id, ask.turn_id) == (identifier, identifier, identifier)
    assert await admin.list_all(workspace_id=identifier, session_id=identifier, turn_id=identifier) == [ask]


BAD_IDENTIFIERS = [" ", "\u3000\u2028", "x" * 129, "😀" * 33, "a\nb", "a\x7f", "a\x00"]


@BEFORE_THE_DATABASE
@pytest.mark.parametrize("identifier", BAD_IDENTIFIERS)
@pytest.mark.parametrize("field", ["workspace_id", "session_id", "turn_id"])
async def test_a_bad_identifier_is_refused_by_its_field(admin: Client, field: str, identifier: str) -> None:
    refused = await refusal(admin.ask(**{field: identifier}))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", (field,))


async def test_a_session_is_required(admin: Client) -> None:
    refused = await refusal(admin.ask(session_id=""))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("session_id",))


def option(**fields: Any) -> ask_pb2.ChoiceOption:
    defaults: dict[str, Any] = {"id": "a", "label": "A", "value": json_value(None)}
    return ask_pb2.ChoiceOption(**defaults | fields)


def choice(*options: ask_pb2.ChoiceOption, **fields: Any) -> ask_pb2.Question:
    return ask_pb2.Question(choice=ask_pb2.ChoiceQuestion(options=options, **fields))


def prompted(*parts: ask_pb2.ContentPart) -> ask_pb2.Question:
    return ask_pb2.Question(prompt=parts, text=ask_pb2.TextQuestion())


def content(**value: Any) -> ask_pb2.Question:
    """A question whose prompt is a protobuf value that need be no JSON."""
    return prompted(ask_pb2.ContentPart(json=struct_pb2.Value(**value)))


BAD_QUESTIONS: list[tuple[ask_pb2.Question, str, str]] = [
    (ask_pb2.Question(), "invalid_arguments", "type"),
    (text_question(title=" \u3000"), "invalid_arguments", "title"),
    (text_question(title=""), "invalid_arguments", "title"),
    (text_question(title="x" * 257), "content_limit_exceeded", "title"),
    (prompted(ask_pb2.ContentPart()), "content_kind_unsupported", "prompt[0].type"),
    (prompted(*[ask_pb2.ContentPart(text="")] * 65), "content_limit_exceeded", "prompt"),
    (text_question("x" * 262_144), "content_limit_exceeded", ""),
    (content(), "invalid_arguments", "prompt[0].value"),
    (content(number_value=math.nan), "invalid_arguments", "prompt[0].value"),
    (content(number_value=-math.inf), "invalid_arguments", "prompt[0].value"),
    (content(number_value=2.0**53), "invalid_arguments", "prompt[0].value"),
    (content(number_value=1e300), "invalid_arguments", "prompt[0].value"),
    (content(list_value=struct_pb2.ListValue(values=[struct_pb2.Value()])), "invalid_arguments", "prompt[0].value[0]"),
    (choice(), "invalid_arguments", "options"),
    (choice(*[option(id=str(number)) for number in range(101)]), "content_limit_exceeded", "options"),
    (choice(option(), option()), "invalid_arguments", "options[1].id"),
    (choice(option(id="")), "invalid_arguments", "options[0].id"),
    (choice(option(id="x" * 129)), "content_limit_exceeded", "options[0].id"),
    (choice(option(label="x" * 257)), "content_limit_exceeded", "options[0].label"),
    (choice(option(description="x" * 2049)), "content_limit_exceeded", "options[0].description"),
    (choice(option(value=None)), "invalid_arguments", "options[0].value"),
    (choice(option(value=json_value("x" * 65_536))), "content_limit_exceeded", ""),
]


@BEFORE_THE_DATABASE
@pytest.mark.parametrize(("question", "reason", "path"), BAD_QUESTIONS)
async def test_a_bad_question_is_refused_by_its_path(
    admin: Client, question: ask_pb2.Question, reason: str, path: str
) -> None:
    refused = await refusal(admin.ask(text_question(), question))
    assert (refused.status, refused.reason) == (INVALID, reason)
    assert refused.fields == (f"questions[1]{path and f'.{path}'}",)
    alone = await refusal(admin.validate(question))
    assert (alone.reason, alone.fields) == (reason, (f"question{path and f'.{path}'}",))


async def test_a_limit_error_says_the_limit_and_the_size(admin: Client) -> None:
    refused = await refusal(admin.ask(text_question(title="€" * 100)))
    assert "300" in refused.message
    assert "256" in refused.message


async def test_a_value_is_at_most_20_levels_deep(admin: Client) -> None:
    ask = await admin.ask(json_question(nested(20)))
    assert ask.questions[0] == json_question(nested(20))
    refused = await refusal(admin.ask(json_question(nested(21))))
    assert (refused.reason, len(refused.fields)) == ("invalid_arguments", 1)
    assert refused.fields[0].startswith("questions[0].prompt[0].value")


@pytest.mark.parametrize("count", [0, 33])
async def test_an_ask_has_1_to_32_questions(admin: Client, count: int) -> None:
    request = pb.AskRequest(workspace_id="w", session_id="s", questions=[text_question()] * count)
    refused = await refusal(admin.asks.Ask(request, metadata=admin.metadata))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("questions",))


async def test_32_questions_are_legal(admin: Client) -> None:
    assert len((await admin.ask(*[text_question()] * 32)).questions) == 32


async def test_questions_together_are_at_most_1_mib_as_json_and_as_protobuf(admin: Client) -> None:
    as_json = await refusal(admin.ask(*[text_question("x" * 250_000)] * 5))
    assert (as_json.reason, as_json.fields) == ("content_limit_exceeded", ("questions",))
    # A number is two bytes of JSON here, and eleven of protobuf.
    as_protobuf = await refusal(admin.ask(*[json_question([0] * 50_000)] * 2))
    assert (as_protobuf.reason, as_protobuf.fields) == ("content_limit_exceeded", ("questions",))
    assert "protobuf" in as_protobuf.message


@pytest.mark.parametrize("field", ["message_id", "call_id"])
async def test_a_tool_id_is_at_most_512_bytes(admin: Client, field: str) -> None:
    longest = await admin.ask(tool=ask_pb2.ToolCall(**{field: "€" * 170 + "xx"}))
    assert getattr(longest.tool, field) == "€" * 170 + "xx"
    refused = await refusal(admin.ask(tool=ask_pb2.ToolCall(**{field: "x" * 513})))
    assert (refused.reason, refused.fields) == ("invalid_arguments", (f"tool.{field}",))


async def test_an_empty_tool_is_not_the_same_as_none(admin: Client) -> None:
    assert (await admin.ask(tool=ask_pb2.ToolCall())).HasField("tool")


async def test_a_turn_asks_at_most_8_mib(admin: Client) -> None:
    quarter = text_question("x" * 260_000)
    for _ in range(8):
        await admin.ask(*[quarter] * 4, turn_id="t")
    refused = await refusal(admin.ask(*[text_question("x")] * 2, quarter, turn_id="t"))
    assert (refused.status, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "output_budget_exceeded")
    assert (await admin.ask(quarter, turn_id="u")).status == PENDING
    assert (await admin.ask(quarter, turn_id="t", session_id="other")).status == PENDING
    assert (await admin.ask(quarter, turn_id="t", workspace_id="other")).status == PENDING
    assert (await admin.ask(quarter)).status == PENDING


async def test_a_refused_ask_changes_nothing_and_is_not_announced(admin: Client) -> None:
    async with admin.watch() as watcher:
        await watcher.until_synced()
        await refusal(admin.ask(ask_pb2.Question(), request_id="r"))
        await refusal(admin.ask(session_id=""))
        await refusal(admin.ask(request_id="x" * 513))
        ask = await admin.ask(request_id="r")
        assert ask.created_revision == 1
        assert [event.ask for event in await watcher.events(1)] == [ask]
    assert await admin.list_all() == [ask]


# --- request ids ---


async def test_a_request_id_makes_asking_again_safe(admin: Client) -> None:
    fields = {"turn_id": "t", "tool": TOOL, "request_id": "r"}
    first = await admin.ask(**fields)
    assert await admin.ask(**fields) == first
    receipt = await admin.answer(first.id)
    replay = await admin.ask(**fields)
    assert replay.status == ANSWERED
    assert replay.answers == receipt.answers
    assert replay.questions == first.questions
    assert await admin.list_all() == [replay]


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "other"},
        {"turn_id": ""},
        {"turn_id": "other"},
        {"tool": None},
        {"tool": ask_pb2.ToolCall(message_id="msg_1", call_id="other")},
    ],
)
async def test_a_request_id_with_other_contents_is_a_conflict(admin: Client, other: dict[str, Any]) -> None:
    fields = {"turn_id": "t", "tool": TOOL, "request_id": "r"}
    await admin.ask(**fields)
    refused = await refusal(admin.ask(**fields | other))
    assert (refused.status, refused.reason) == (grpc.StatusCode.ALREADY_EXISTS, "request_id_conflict")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (text_question("a"), text_question("b")),
        (json_question(1), json_question(True)),
        (json_question("1"), json_question(1)),
        (choice_question("a", "b"), choice_question("b", "a")),
        (choice_question("a"), choice_question("a", multiple=True)),
        (text_question("e\u0301"), text_question("\u00e9")),
    ],
)
async def test_a_request_id_with_other_questions_is_a_conflict(
    admin: Client, first: ask_pb2.Question, second: ask_pb2.Question
) -> None:
    await admin.ask(first, request_id="r")
    assert (await refusal(admin.ask(second, request_id="r"))).reason == "request_id_conflict"
    assert (await refusal(admin.ask(first, first, request_id="r"))).reason == "request_id_conflict"


async def test_a_request_id_belongs_to_its_workspace(admin: Client) -> None:
    first, second = [await admin.ask(workspace_id=workspace, request_id="r") for workspace in ("v", "w")]
    assert first.id != second.id


async def test_a_known_request_id_is_looked_at_before_anything_but_the_role(admin: Client) -> None:
    quarter = text_question("x" * 260_000)
    first = await admin.ask(*[quarter] * 4, request_id="r", turn_id="t")
    for _ in range(7):
        await admin.ask(*[quarter] * 4, turn_id="t")
    assert await admin.ask(*[quarter] * 4, request_id="r", turn_id="t") == first
    bad: list[Callable[[Client], Any]] = [
        lambda client: client.ask(ask_pb2.Question(), request_id="r"),
        lambda client: client.ask(session_id="", request_id="r"),
        lambda client: client.ask(tool=ask_pb2.ToolCall(call_id="x" * 513), request_id="r"),
    ]
    viewer = await admin.with_grants(grant("viewer"))
    for call in bad:
        assert (await refusal(call(admin))).reason == "request_id_conflict"
        assert (await refusal(call(viewer))).reason == "permission_denied"


async def test_an_unknown_request_id_hides_nothing_wrong(admin: Client) -> None:
    assert (await refusal(admin.ask(ask_pb2.Question(), request_id="r"))).reason == "invalid_arguments"


@pytest.mark.parametrize("request_id", ["x" * 512, "\x00", " ", "r\n", "😀" * 128])
async def test_any_text_of_512_bytes_is_a_request_id(admin: Client, request_id: str) -> None:
    first = await admin.ask(request_id=request_id)
    assert (await admin.ask(request_id=request_id)).id == first.id
    assert (await admin.ask(request_id="other")).id != first.id


async def test_a_request_id_beyond_512_bytes_is_refused(admin: Client) -> None:
    refused = await refusal(admin.ask(request_id="€" * 171))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("request_id",))


async def test_of_many_at_once_with_one_request_id_one_asks(admin: Client) -> None:
    asks = await asyncio.gather(*[admin.ask(request_id="r") for _ in range(50)])
    assert all(ask == asks[0] for ask in asks)
    assert await admin.list_all() == [asks[0]]


async def test_another_principal_may_ask_again_with_a_request_id(admin: Client) -> None:
    asker = await admin.with_grants(grant("asker", "w"))
    first = await admin.ask(request_id="r")
    assert await asker.ask(request_id="r") == first


async def test_asks_of_one_session_are_independent_of_each_other(admin: Client) -> None:
    first, second, third = [await admin.ask(turn_id="t") for _ in range(3)]
    await admin.answer(second.id)
    await admin.reject(first.id)
    assert await admin.get(third.id) == third


@pytest.mark.parametrize("seconds", [0, 0.999, -1, 365 * 86_400 + 1])
async def test_an_expiry_beyond_1_s_to_365_days_is_refused(admin: Client, seconds: float) -> None:
    refused = await refusal(admin.ask(expires_in=span(seconds)))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("expires_in",))


async def test_a_valid_question_validates_for_any_credential(admin: Client) -> None:
    nobody = await admin.with_grants()
    await nobody.validate(choice_question())


async def test_a_question_of_exactly_the_largest_size_is_accepted(admin: Client) -> None:
    empty = len('{"prompt":[{"text":"","type":"text"}],"type":"text"}')
    largest = text_question("x" * (MIB // 4 - empty))
    assert (await admin.ask(largest)).questions[0] == largest
    refused = await refusal(admin.ask(text_question("x" * (MIB // 4 - empty + 1))))
    assert refused.reason == "content_limit_exceeded"
    assert "262145" in refused.message
    assert "262144" in refused.message
