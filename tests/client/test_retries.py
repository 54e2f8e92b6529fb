"""What a client tries again, how often, and what it raises at the end (CONTRACT section 6)."""

import time

import grpc
import pytest
from tests.client.scripted_server import Script, failure, serving

from askd.client import AsyncClient, RequestError
from askd.client.backoff import CAP, Backoff
from askd.client.connection import is_loopback
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.v1 import key_service_pb2 as keys

UNAVAILABLE = failure(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
ASK = pb.AskState(id="que_1", status=pb.ASK_STATUS_PENDING)


async def test_an_unavailable_server_is_tried_again_with_the_same_ids() -> None:
    asks = Script(UNAVAILABLE, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, rpc.AskResponse(ask=ASK))
    answers = Script(UNAVAILABLE, rpc.AnswerAskResponse(ask=ASK))
    async with serving(Ask=asks, AnswerAsk=answers) as address, AsyncClient(address) as client:
        assert await client.ask("x", session="s") == ASK
        assert await client.answer("que_1", "yes") == ASK
    assert len({request.request_id for request in asks.requests}) == 1
    assert len({request.answer_id for request in answers.requests}) == 1
    assert asks.requests[0].request_id


async def test_nothing_else_is_tried_again() -> None:
    for status, reason in (
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED"),
        (grpc.StatusCode.INTERNAL, "MODEL_OUTPUT_INVALID"),
        (grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        (grpc.StatusCode.FAILED_PRECONDITION, "TURN_ENDED"),
    ):
        script = Script(failure(status, reason))
        async with serving(GetAsk=script) as address, AsyncClient(address) as client:
            with pytest.raises(RequestError) as refusal:
                await client.get("que_1")
        assert (refusal.value.code, refusal.value.attempts) == (reason.lower(), 1)


async def test_patience_ends() -> None:
    async with AsyncClient("127.0.0.1:1", patience=0.3) as client:
        began = time.monotonic()
        with pytest.raises(RequestError) as refusal:
            await client.get("que_1")
    assert refusal.value.code == "unavailable"
    assert refusal.value.attempts > 1
    assert time.monotonic() - began < 2  # seconds


async def test_a_call_ends_at_its_deadline_however_the_server_dawdles() -> None:
    script = Script([])
    async with serving(WatchAsks=script) as address, AsyncClient(address, timeout=0.1) as client:
        stuck = client._connection.channel.unary_unary(
            "/askd.v1.AskService/WatchAsks",
            request_serializer=rpc.WatchAsksRequest.SerializeToString,
            response_deserializer=rpc.WatchAsksResponse.FromString,
        )
        with pytest.raises(RequestError) as refusal:
            await client._connection.call(stuck, rpc.WatchAsksRequest())
    assert refusal.value.code == "deadline_exceeded"


async def test_a_pause_is_no_shorter_than_the_server_asked_for() -> None:
    script = Script(failure(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", retry=0.2), rpc.GetAskResponse(ask=ASK))
    async with serving(GetAsk=script) as address, AsyncClient(address) as client:
        began = time.monotonic()
        await client.get("que_1")
    assert time.monotonic() - began >= 0.2  # seconds


async def test_details_become_the_errors_fields() -> None:
    told = failure(grpc.StatusCode.INVALID_ARGUMENT, "ANSWER_INVALID", field="answers[0]", retry=0.5, a="b")
    async with serving(GetAsk=Script(told)) as address, AsyncClient(address) as client:
        with pytest.raises(RequestError, match="answer_invalid: why") as refusal:
            await client.get("que_1")
    error = refusal.value
    assert (error.code, error.message, error.field) == ("answer_invalid", "why", "answers[0]")
    assert (error.metadata, error.retry_after) == ({"a": "b"}, 0.5)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "invalid_arguments"),
        (grpc.StatusCode.NOT_FOUND, "not_found"),
        (grpc.StatusCode.PERMISSION_DENIED, "permission_denied"),
        (grpc.StatusCode.UNIMPLEMENTED, "unimplemented"),
        (grpc.StatusCode.UNKNOWN, "unknown"),
    ],
)
async def test_a_status_without_details_gives_the_code(status: grpc.StatusCode, code: str) -> None:
    async with serving(GetAsk=Script(status)) as address, AsyncClient(address) as client:
        with pytest.raises(RequestError) as refusal:
            await client.get("que_1")
    assert refusal.value.code == code


async def test_making_a_key_is_tried_once() -> None:
    script = Script(UNAVAILABLE)
    async with serving(CreateKey=script) as address, AsyncClient(address) as client:
        with pytest.raises(RequestError) as refusal:
            await client.create_key("k", [])
    assert (refusal.value.code, len(script.requests)) == ("unavailable", 1)


def _lost(winner: str) -> object:
    return failure(
        grpc.StatusCode.FAILED_PRECONDITION, "ASK_ALREADY_RESOLVED", status="rejected", resolved_by=f"key:{winner}"
    )


async def test_a_rejection_whose_reply_was_lost_is_found_done() -> None:
    rejected = pb.AskState(id="que_1", status=pb.ASK_STATUS_REJECTED)
    async with (
        serving(
            RejectAsk=Script(UNAVAILABLE, _lost("key_me")),
            WhoAmI=Script(keys.WhoAmIResponse(principal="key:key_me")),
            GetAsk=Script(rpc.GetAskResponse(ask=rejected)),
        ) as address,
        AsyncClient(address) as client,
    ):
        assert await client.reject("que_1") == rejected


@pytest.mark.parametrize("steps", [(UNAVAILABLE, _lost("key_other")), (_lost("key_me"),)], ids=["other", "first try"])
async def test_a_rejection_by_another_is_a_loss(steps: tuple[object, ...]) -> None:
    who = Script(keys.WhoAmIResponse(principal="key:key_me"))
    async with serving(RejectAsk=Script(*steps), WhoAmI=who) as address, AsyncClient(address) as client:
        with pytest.raises(RequestError) as refusal:
            await client.reject("que_1")
    assert refusal.value.code == "ask_already_resolved"


def test_pauses_grow_up_to_a_cap_and_begin_again_after_a_success() -> None:
    backoff = Backoff()
    pauses = [backoff.pause() for _ in range(100)]
    assert pauses[0] <= 0.1 < pauses[3] < pauses[7] <= CAP
    assert all(CAP / 2 <= pause <= CAP for pause in pauses[10:])
    assert len(set(pauses)) == len(pauses)
    assert backoff.pause(at_least=60) >= 60
    backoff.reset()
    assert backoff.pause() <= 0.1


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:50051", True),
        ("[::1]:50051", True),
        ("localhost:50051", True),
        ("unix:/tmp/askd", True),
        ("10.0.0.1:50051", False),
        ("askd.example:50051", False),
        ("127.0.0.1.example:50051", False),
        ("", False),
    ],
)
def test_addresses_of_this_machine_are_known(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
