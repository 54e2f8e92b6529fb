"""Requests that are no messages, or hold what no client should send: each is refused with a code, never as UNKNOWN or
INTERNAL, and the server goes on (CONTRACT section 6)."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import Message
from tests.clients import ANSWERED, LIMIT, PENDING, Client, grant, refusal, refusal_of, span
from tests.questions import choice_question, chosen, json_question, text_question
from tests.server.test_access import is_implemented, listed_services, methods, path
from tests.servers import Served
from tests.store.backends import BEFORE_THE_DATABASE

from askd.v1 import ask_pb2, key_service_pb2, session_service_pb2
from askd.v1 import ask_service_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT
#: What no caller's doing may end in.
BUGS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS}

ASK = pb.AskRequest(
    workspace_id="w",
    session_id="s",
    turn_id="t",
    questions=[text_question(title="x"), json_question({"a": [1, None]}), choice_question("a", allow_custom=True)],
    tool=ask_pb2.ToolCall(message_id="m", call_id="c"),
)
EXAMPLES: dict[str, Message] = {
    "/askd.v1.AskService/Ask": ASK,
    "/askd.v1.AskService/WaitAsk": pb.WaitAskRequest(workspace_id="w", ask_id="x", timeout=span(1)),
    "/askd.v1.AskService/GetAsk": pb.GetAskRequest(workspace_id="w", session_id="s", turn_id="t", ask_id="x"),
    "/askd.v1.AskService/ListAsks": pb.ListAsksRequest(
        workspace_id="w", session_id="s", turn_id="t", statuses=[PENDING, ANSWERED], limit=5, cursor="xxxx"
    ),
    "/askd.v1.AskService/AnswerAsk": pb.AnswerAskRequest(
        workspace_id="w", session_id="s", turn_id="t", ask_id="x", answer_id="a", answers=[chosen("a", custom="x")]
    ),
    "/askd.v1.AskService/RejectAsk": pb.RejectAskRequest(workspace_id="w", ask_id="x", reason="no"),
    "/askd.v1.AskService/CancelAsk": pb.CancelAskRequest(workspace_id="w", ask_id="x"),
    "/askd.v1.AskService/WatchAsks": pb.WatchAsksRequest(
        workspace_id="w", session_id="s", turn_id="t", statuses=[PENDING], after_revision=7
    ),
    "/askd.v1.AskService/ValidateQuestion": pb.ValidateQuestionRequest(question=choice_question("a", multiple=True)),
    "/askd.v1.KeyService/CreateKey": key_service_pb2.CreateKeyRequest(
        name="x",
        grants=[grant("asker", "w", "s")],
    ),
    "/askd.v1.AskService/ConsultAsk": pb.ConsultAskRequest(
        workspace_id="w", ask_id="x", provider_id="p", model_id="m", note="n", question_index=1, system="s"
    ),
    "/askd.v1.SessionService/OpenSession": session_service_pb2.OpenSessionRequest(
        workspace_id="w", session_id="s", parent_session_id="p"
    ),
    "/askd.v1.SessionService/EndTurn": session_service_pb2.EndTurnRequest(
        workspace_id="w", session_id="over", turn_id="t", outcome=session_service_pb2.TURN_OUTCOME_FAILED
    ),
    "/askd.v1.SessionService/EndSession": session_service_pb2.EndSessionRequest(workspace_id="w", session_id="over"),
    "/askd.v1.KeyService/GrantRole": key_service_pb2.GrantRoleRequest(
        principal="user:u", grant=grant("asker", "w", "s")
    ),
    "/askd.v1.KeyService/RevokeRole": key_service_pb2.RevokeRoleRequest(principal="user:u", grant=grant("asker", "w")),
    "/askd.v1.KeyService/ListGrants": key_service_pb2.ListGrantsRequest(principal="user:u"),
    "/askd.v1.KeyService/ListKeys": key_service_pb2.ListKeysRequest(),
    "/askd.v1.KeyService/RevokeKey": key_service_pb2.RevokeKeyRequest(key_id="x"),
    "/askd.v1.KeyService/WhoAmI": key_service_pb2.WhoAmIRequest(),
}


async def implemented(client: Client) -> list[str]:
    services = await listed_services(client)
    return [path(method) for method in methods() if is_implemented(method, services)]


async def outcome(client: Client, name: str, request: bytes) -> grpc.StatusCode:
    """The code that a call ends with; refusals are held to what section 6 promises."""
    try:
        await client.send(name, request)
    except grpc.aio.AioRpcError as error:
        refused = refusal_of(error)
        assert refused.status not in BUGS, (name, request, refused.message)
        return refused.status
    return grpc.StatusCode.OK


async def works(client: Client) -> bool:
    ask = await client.ask()
    return (await client.get(ask.id)) == ask


@BEFORE_THE_DATABASE
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\xff",
        b"\x0a",
        b"\x0a\x05x",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x00",
        b"\x0b\x0b\x0b",
        b"\x0c",
    ],
)
async def test_what_is_no_message_is_refused(admin: Client, request_bytes: bytes) -> None:
    for name in await implemented(admin):
        assert await outcome(admin, name, request_bytes) is INVALID, name
    assert await works(admin)


def _invalid_texts(message: Message, texts: list[bytes]) -> Iterator[bytes]:
    """The message's bytes with each of its texts in turn replaced by no UTF-8 of the same length."""
    raw = message.SerializeToString()
    for text in texts:
        yield raw.replace(text, b"\xff" * len(text), 1)


@BEFORE_THE_DATABASE
async def test_text_that_is_no_utf_8_is_refused(admin: Client) -> None:
    marked = [
        ("/askd.v1.AskService/Ask", pb.AskRequest(session_id="IIII", turn_id="JJJJ", request_id="KKKK",
            questions=[text_question("LLLL", title="MMMM")]), ["IIII", "JJJJ", "KKKK", "LLLL", "MMMM"]),
        ("/askd.v1.AskService/Ask", pb.AskRequest(session_id="s", questions=[json_question({"IIII": "JJJJ"})]),
            ["IIII", "JJJJ"]),
        ("/askd.v1.AskService/GetAsk", pb.GetAskRequest(workspace_id="IIII", ask_id="JJJJ"), ["IIII", "JJJJ"]),
        ("/askd.v1.AskService/AnswerAsk", pb.AnswerAskRequest(answer_id="IIII", answers=[chosen("JJJJ", notes="KKKK")]),
            ["IIII", "JJJJ", "KKKK"]),
        ("/askd.v1.AskService/RejectAsk", pb.RejectAskRequest(reason="IIII"), ["IIII"]),
        ("/askd.v1.AskService/WatchAsks", pb.WatchAsksRequest(session_id="IIII"), ["IIII"]),
        ("/askd.v1.AskService/ListAsks", pb.ListAsksRequest(cursor="IIII"), ["IIII"]),
        ("/askd.v1.KeyService/CreateKey", key_service_pb2.CreateKeyRequest(name="IIII"), ["IIII"]),
    ]  # fmt: skip
    for name, message, texts in marked:
        for raw in _invalid_texts(message, [text.encode() for text in texts]):
            assert await outcome(admin, name, raw) is INVALID, name
    for surrogate in (b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"):
        request = pb.AskRequest(session_id="s", questions=[text_question("I" * len(surrogate))]).SerializeToString()
        raw = request.replace(b"I" * len(surrogate), surrogate)
        assert await outcome(admin, "/askd.v1.AskService/Ask", raw) is INVALID


def bomb(levels: int) -> struct_pb2.Value:
    """Lists in lists, so many levels deep."""
    value = struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    for _ in range(levels):
        value = struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value]))
    return value


def raw_bomb(levels: int) -> bytes:
    """The same beyond what the library itself would write: tag and length around what was before."""
    raw = b""
    for _ in range(levels):
        for tag in (b"\x0a", b"\x32"):
            raw = tag + _varint(len(raw)) + raw
    return raw


def _varint(number: int) -> bytes:
    raw = b""
    while number > 0x7F:
        raw += bytes([number & 0x7F | 0x80])
        number >>= 7
    return raw + bytes([number])


@BEFORE_THE_DATABASE
@pytest.mark.parametrize("levels", [21, 40, 100, 1_000, 10_000])
async def test_a_nesting_bomb_is_refused(admin: Client, levels: int) -> None:
    value = bomb(levels).SerializeToString() if levels <= 40 else raw_bomb(levels)
    part = b"\x12" + _varint(len(value)) + value
    question = b"\x0a" + _varint(len(part)) + part + b"\x1a\x00"
    validate = b"\x0a" + _varint(len(question)) + question
    assert await outcome(admin, "/askd.v1.AskService/ValidateQuestion", validate) is INVALID
    ask = b"\x12\x01s\x22" + _varint(len(question)) + question
    assert await outcome(admin, "/askd.v1.AskService/Ask", ask) is INVALID
    assert await works(admin)


@BEFORE_THE_DATABASE
async def test_a_message_beyond_4_mib_is_refused(admin: Client) -> None:
    for name in ("/askd.v1.AskService/Ask", "/askd.v1.AskService/WatchAsks", "/askd.v1.KeyService/WhoAmI"):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await admin.send(name, b"\x0a" + _varint(4 * 1024 * 1024) + b"x" * (4 * 1024 * 1024))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, name
    assert await works(admin)


async def test_a_message_just_below_4_mib_is_looked_at(admin: Client) -> None:
    huge = "ж" * (2 * 1024 * 1024 - 100)
    refused = await refusal(admin.get(huge))
    assert refused.reason == "not_found"
    assert (await refusal(admin.ask(session_id=huge))).fields == ("session_id",)
    assert (await refusal(admin.ask(text_question(title=huge)))).reason == "content_limit_exceeded"
    assert (await refusal(admin.ask(request_id=huge))).fields == ("request_id",)
    assert (await refusal(admin.answer("x", answer_id=huge))).reason == "not_found"
    ask = await admin.ask(choice_question("a"))
    assert (await refusal(admin.answer(ask.id, chosen(huge)))).reason == "answer_invalid"
    assert (await refusal(admin.answer(ask.id, chosen("a", custom=huge)))).reason == "answer_invalid"
    assert (await refusal(admin.page(cursor=huge))).fields == ("cursor",)
    assert (await refusal(admin.revoke_key(huge))).reason == "not_found"
    assert (await refusal(admin.create_key(name=huge))).fields == ("name",)


async def test_a_compressed_message_is_held_to_its_real_size(admin: Client) -> None:
    request = pb.RejectAskRequest(workspace_id="w", ask_id="x", reason="x" * 5 * 1024 * 1024)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await admin.asks.RejectAsk(
            request,
            metadata=admin.metadata,
            timeout=10,
            compression=grpc.Compression.Gzip,
        )
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    small = pb.GetAskRequest(workspace_id="w", ask_id=(await admin.ask()).id)
    found = await admin.asks.GetAsk(
        small,
        metadata=admin.metadata,
        timeout=10,
        compression=grpc.Compression.Gzip,
    )
    assert found.ask.created_revision == 1


async def test_unknown_fields_of_a_message_are_passed_over(admin: Client) -> None:
    ask = await admin.ask()
    request = pb.GetAskRequest(workspace_id="w", ask_id=ask.id).SerializeToString() + b"\xfa\x3f\x01x"
    assert pb.GetAskResponse.FromString(await admin.send("GetAsk", request)).ask == ask


@BEFORE_THE_DATABASE
async def test_metadata_beyond_what_grpc_takes_is_refused(admin: Client) -> None:
    huge = admin.other("x" * 20_000)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await huge.who_am_i()
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await works(admin)


@BEFORE_THE_DATABASE
@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 200, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200]
)
async def test_a_connection_that_speaks_something_else_is_closed(server: Served, junk: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(junk)
    await asyncio.wait_for(reader.read(), LIMIT)  # to its end
    writer.close()
    await writer.wait_closed()
    assert await works(server.admin)


@BEFORE_THE_DATABASE
async def test_a_call_that_sends_no_message_keeps_nobody(server: Served) -> None:
    method: Any = server.admin.channel.stream_unary("/askd.v1.AskService/Ask")
    call = method(_nothing(), metadata=server.admin.metadata)
    assert await works(server.admin)
    await asyncio.wait_for(server.drain(), 5)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    assert raised.value.code() not in BUGS


async def _nothing() -> AsyncIterator[bytes]:
    messages: list[bytes] = []
    for message in messages:
        yield message


async def test_damaged_requests_of_every_kind_are_refused_with_a_code(admin: Client) -> None:
    chance = random.Random(20)  # noqa: S311  # the same requests each time
    assert set(await implemented(admin)) <= EXAMPLES.keys()
    for name, message in EXAMPLES.items():
        raw = message.SerializeToString() or b"\x00"
        for _ in range(30):
            await outcome(admin, name, _damaged(raw, chance))
    assert await works(admin)


def _damaged(raw: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(raw))
    match chance.randrange(4):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + chance.randbytes(chance.randrange(1, 8)) + raw[at:]
        case 2:
            return raw[:at] + raw[at + 1 :] + raw[:at]
        case _:
            return raw[:at] + bytes([raw[at] ^ 1 << chance.randrange(8)]) + raw[at + 1 :]
