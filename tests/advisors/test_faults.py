"""Providers and models that fail, in the wire format of each (CONTRACT section 8)."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.advisors.consulting import UPSTREAM, Advised, advised
from tests.advisors.provider_server import Step, close, endless, reply
from tests.advisors.wires import ADVICE, CHAT, WIRES, Wire
from tests.conditions import eventually
from tests.questions import choice_question

from askd.v1 import ask_pb2

INTERNAL, UNAVAILABLE = grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE
pytestmark = pytest.mark.asyncio(loop_scope="session")
every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

Make = Callable[[Wire], Step]


def cases(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """One test for each row, whose first column is its name."""
    return pytest.mark.parametrize(names, [row[1:] for row in rows], ids=[row[0] for row in rows])


def without(*names: str) -> Any:
    return {name: value for name, value in ADVICE.items() if name not in names}


WRONG_OUTPUTS: list[tuple[str, Make, str]] = [
    ("a missing field", lambda wire: reply(wire.output(without("confidence"))), "missing 'confidence' field"),
    ("another field", lambda wire: reply(wire.advice(note="x")), "unknown 'note' field"),
    ("an unknown label", lambda wire: reply(wire.advice(recommendation=["C"])), 'recommendation: "C" is no option'),
    (
        "two labels for a single choice",
        lambda wire: reply(wire.advice(recommendation=["A", "B"])),
        "recommendation: a single choice takes one option, or a custom answer instead",
    ),
    (
        "no label",
        lambda wire: reply(wire.advice(recommendation=[])),
        "recommendation: at least one label is required",
    ),
    (
        "a label that is no array",
        lambda wire: reply(wire.advice(recommendation="A")),
        "recommendation: must be an array of strings",
    ),
    (
        "a confidence of its own",
        lambda wire: reply(wire.advice(confidence="very high")),
        "confidence: must be high, medium or low",
    ),
    ("reasons that are no text", lambda wire: reply(wire.advice(reasoning=["x"])), "reasoning: must be a string"),
    ("prose", lambda wire: reply(wire.text("I would take A.")), "the output is no JSON"),
    ("fenced JSON", lambda wire: reply(wire.text(f"```json\n{json.dumps(ADVICE)}\n```")), "the output is no JSON"),
    ("an array", lambda wire: reply(wire.text("[]")), "the output is no JSON object"),
    ("nothing", lambda wire: reply(wire.text("")), "the output is empty"),
]


@every_wire
@pytest.mark.parametrize(
    ("step", "reason"), [case[1:] for case in WRONG_OUTPUTS], ids=[case[0] for case in WRONG_OUTPUTS]
)
async def test_a_wrong_output_is_asked_for_once_more_and_then_named(
    place: Advised, wire: Wire, step: Make, reason: str
) -> None:
    place.expect(step(wire))
    ask = await place.ask()
    refused = await place.refused(place.consult(ask.id))
    assert (refused.status, refused.reason, refused.message) == (INTERNAL, "model_output_invalid", reason)
    first, second = place.provider.requests
    assert "refused" not in json.loads(wire.user(first))
    assert json.loads(wire.user(second))["refused"] == reason


FINAL: list[tuple[str, Make, grpc.StatusCode, str]] = [
    ("a refusal", lambda wire: reply(wire.refusal()), INTERNAL, "the model refused to answer"),
    (
        "an output that is cut off",
        lambda wire: reply(wire.cut_off()),
        INTERNAL,
        "the output was cut off at the model's limit of tokens",
    ),
    (
        "1 MB",
        lambda wire: reply(wire.advice(reasoning="x" * 1_000_000)),
        INTERNAL,
        "the response is larger than 256 KiB, or compressed",
    ),
    ("no end", lambda _: endless, INTERNAL, "the response is larger than 256 KiB, or compressed"),
    (
        "a compressed response",
        lambda wire: reply(wire.advice(), content_encoding="gzip"),
        INTERNAL,
        "the response is larger than 256 KiB, or compressed",
    ),
    (
        "a page",
        lambda _: reply(UPSTREAM.encode(), content_type="text/html"),
        INTERNAL,
        "the response is none of the provider's API",
    ),
    (
        "a redirect",
        lambda _: reply(b"", 302, location="/elsewhere"),
        INTERNAL,
        "the response is none of the provider's API",
    ),
    (
        "HTTP 401",
        lambda wire: reply(wire.error(UPSTREAM), 401),
        UNAVAILABLE,
        "the provider refuses the key or what it asks for (HTTP 401)",
    ),
    (
        "HTTP 404",
        lambda wire: reply(wire.error(UPSTREAM), 404),
        UNAVAILABLE,
        "the provider does not know the model (HTTP 404)",
    ),
    (
        "HTTP 400",
        lambda wire: reply(wire.error(UPSTREAM), 400),
        UNAVAILABLE,
        "the provider rejects the request (HTTP 400)",
    ),
    ("HTTP 418", lambda wire: reply(wire.error(UPSTREAM), 418), UNAVAILABLE, "the provider failed (HTTP 418)"),
]


@every_wire
@cases(("step", "status", "message"), FINAL)
async def test_what_will_not_pass_is_tried_once(
    place: Advised, wire: Wire, step: Make, status: grpc.StatusCode, message: str
) -> None:
    place.expect(step(wire))
    ask = await place.ask()
    refused = await place.refused(place.consult(ask.id))
    assert (refused.status, refused.message) == (status, message)
    assert refused.reason == ("model_output_invalid" if status is INTERNAL else "provider_unavailable")
    assert len(place.provider.requests) == 1


PASSING: list[tuple[str, Make, str]] = [
    ("HTTP 429", lambda wire: reply(wire.error(UPSTREAM), 429), "the rate limit at the provider is reached (HTTP 429)"),
    ("HTTP 500", lambda wire: reply(wire.error(UPSTREAM), 500), "the provider failed (HTTP 500)"),
    ("a large HTTP 500", lambda wire: reply(b"x" * 1_000_000, 500), "the provider failed (HTTP 500)"),
    ("HTTP 503", lambda wire: reply(wire.error(UPSTREAM), 503), "the provider is unavailable (HTTP 503)"),
    ("a closed connection", lambda _: close, "the provider closed the connection"),
]
passing = pytest.mark.parametrize(
    ("step", "message"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING]
)


@every_wire
@passing
async def test_what_may_pass_is_tried_three_times(place: Advised, wire: Wire, step: Make, message: str) -> None:
    place.expect(step(wire))
    ask = await place.ask()
    refused = await place.refused(place.consult(ask.id))
    assert (refused.status, refused.reason, refused.message) == (UNAVAILABLE, "provider_unavailable", message)
    assert len(place.provider.requests) == 3


@every_wire
@passing
async def test_what_passes_leads_to_advice(place: Advised, wire: Wire, step: Make, message: str) -> None:
    place.expect(step(wire), reply(wire.advice()))
    ask = await place.ask()
    assert (await place.consult(ask.id)).recommendation == ["A"], message


async def test_a_pause_that_the_provider_asks_for_is_not_waited_for_beyond_the_timeout(tmp_path: Path) -> None:
    async with advised(tmp_path, reply(CHAT.error(UPSTREAM), 429, retry_after="70")) as place:
        ask = await place.ask()
        refused = await place.refused(place.consult(ask.id))
        assert refused.message == "the rate limit at the provider is reached (HTTP 429)"
        assert len(place.provider.requests) == 1


async def test_nobody_listens(tmp_path: Path) -> None:
    async with advised(tmp_path, close, base_url="http://127.0.0.1:1/v1") as place:
        ask = await place.ask()
        refused = await place.refused(place.consult(ask.id))
        assert (refused.reason, refused.message) == ("provider_unavailable", "the provider cannot be reached")


@every_wire
async def test_a_slow_provider_is_left_when_the_time_is_over(tmp_path: Path, wire: Wire) -> None:
    async with advised(tmp_path, close, wire=wire, timeout=0.3) as place:
        place.provider.steps = [place.provider.hang]
        ask = await place.ask()
        refused = await place.refused(place.consult(ask.id))
        assert (refused.status, refused.reason) == (UNAVAILABLE, "provider_unavailable")
        assert refused.message == "the provider did not answer within 0.3 s"
        await eventually(lambda: place.provider.abandoned == 1)


async def test_a_failure_leaves_the_ask_as_it_was(tmp_path: Path) -> None:
    async with advised(tmp_path, reply(CHAT.text("prose"))) as place:
        ask = await place.ask()
        await place.refused(place.consult(ask.id))
        assert await place.admin.get(ask.id) == ask


async def test_what_was_wrong_is_cut_to_a_line(tmp_path: Path) -> None:
    label = "no\nsuch\u2028label" * 1000
    async with advised(tmp_path, reply(CHAT.advice(recommendation=[label]))) as place:
        ask = await place.ask()
        refused = await place.refused(place.consult(ask.id))
        assert len(refused.message) < 200


@pytest.mark.parametrize(
    "output",
    [
        '{"recommendation": ["\\ud800"], "reasoning": "", "confidence": "low"}',
        '{"recommendation": ["A"], "reasoning": "\\ud800", "confidence": "low"}',
        '{"recommendation": [' + "[" * 100_000,
        '{"recommendation": ["A"], "reasoning": "", "confidence": ' + "1" * 100_000 + "}",
    ],
    ids=["surrogate label", "surrogate reasons", "deep", "long number"],
)
async def test_output_that_would_trip_a_reader_is_only_wrong(tmp_path: Path, output: str) -> None:
    async with advised(tmp_path, reply(CHAT.text(output))) as place:
        question: ask_pb2.Question = choice_question("a", "b", allow_custom=True)
        ask = await place.ask(question)
        assert (await place.refused(place.consult(ask.id))).reason == "model_output_invalid"
