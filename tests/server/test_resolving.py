"""AnswerAsk, RejectAsk and CancelAsk over the wire (CONTRACT sections 3 and 4)."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.clients import ANSWERED, CANCELLED, PENDING, REJECTED, Client, Refusal, grant, refusal
from tests.questions import choice_question, chosen, json_value, text, text_question
from tests.servers import served

from askd.v1 import ask_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
CONFLICT = grpc.StatusCode.ALREADY_EXISTS
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION


async def test_the_receipt_is_the_answered_ask_without_its_questions(admin: Client) -> None:
    ask = await admin.ask(choice_question("a", "b", "c", multiple=True, allow_notes=True), text_question(), turn_id="t")
    receipt = await admin.answer(ask.id, chosen("c", "a", notes="both"), text("Ada"))
    selected = [ask_pb2.Selection(id=item, value=json_value(item)) for item in ("a", "c")]
    expected = ask_pb2.AskState()
    expected.CopyFrom(ask)
    expected.ClearField("questions")
    expected.MergeFrom(
        ask_pb2.AskState(
            status=ANSWERED,
            answers=[
                ask_pb2.Answer(choice=ask_pb2.ChoiceAnswer(selected=selected, notes="both")),
                ask_pb2.Answer(text="Ada"),
            ],
            answered_at=receipt.answered_at,
            resolved_revision=2,
            resolved_by_api_key_id=await admin.key_id(),
        )
    )
    assert receipt == expected
    assert receipt.answered_at.ToMicroseconds() >= ask.created_at.ToMicroseconds()
    expected.questions.extend(ask.questions)
    assert await admin.get(ask.id) == expected


async def test_an_answer_replayed_returns_the_first_receipt(admin: Client) -> None:
    ask = await admin.ask(choice_question("a", "b", multiple=True))
    receipt = await admin.answer(ask.id, chosen("a", "b"))
    assert await admin.answer(ask.id, chosen("a", "b")) == receipt
    assert await admin.answer(ask.id, chosen("b", "a")) == receipt, "the order of ids does not matter"
    assert (await admin.ask()).created_revision == 3


async def test_an_answer_replayed_after_a_restart_returns_the_first_receipt(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        ask = await first.admin.ask(request_id="r")
        receipt = await first.admin.answer(ask.id, text("Ada"))
    async with served(tmp_path / "data", environment=database_settings) as second:
        assert await second.admin.answer(ask.id, text("Ada")) == receipt
        assert (await second.admin.ask(request_id="r")).id == ask.id
        refused = await refusal(second.admin.answer(ask.id, text("Ada"), answer_id="other"))
        assert refused.reason == "ask_already_resolved"


async def test_an_answer_id_with_other_submissions_is_a_conflict(admin: Client) -> None:
    ask = await admin.ask()
    await admin.answer(ask.id, text("Ada"))
    for answers in ([text("Bob")], [text("Ada"), text("Ada")], [chosen("a")], [ask_pb2.AnswerSubmission()]):
        refused = await refusal(admin.answer(ask.id, *answers))
        assert (refused.status, refused.reason) == (CONFLICT, "answer_id_conflict")


async def test_an_answer_id_from_another_principal_is_a_conflict(admin: Client) -> None:
    other = await admin.with_grants(grant("answerer", "w"))
    ask = await admin.ask()
    await admin.answer(ask.id)
    assert (await refusal(other.answer(ask.id))).reason == "answer_id_conflict"


async def test_an_answer_id_belongs_to_its_ask(admin: Client) -> None:
    for _ in range(2):
        ask = await admin.ask()
        assert (await admin.answer(ask.id, answer_id="same")).status == ANSWERED


async def test_an_answer_id_is_used_up_only_by_an_accepted_answer(admin: Client) -> None:
    ask = await admin.ask()
    await refusal(admin.answer(ask.id, chosen("a")))
    assert await admin.get(ask.id) == ask
    assert (await admin.answer(ask.id, text("Ada"))).status == ANSWERED


@pytest.mark.parametrize("answer_id", ["", "x" * 513, "€" * 171])
async def test_an_answer_id_has_1_to_512_bytes(admin: Client, answer_id: str) -> None:
    ask = await admin.ask()
    refused = await refusal(admin.answer(ask.id, answer_id=answer_id))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("answer_id",))
    assert await admin.get(ask.id) == ask


@pytest.mark.parametrize("answer_id", ["x" * 512, "\x00", " ", "😀" * 128])
async def test_any_text_of_512_bytes_is_an_answer_id(admin: Client, answer_id: str) -> None:
    ask = await admin.ask()
    receipt = await admin.answer(ask.id, answer_id=answer_id)
    assert await admin.answer(ask.id, answer_id=answer_id) == receipt
    assert (await refusal(admin.answer(ask.id, answer_id="other"))).reason == "ask_already_resolved"


# --- what is no answer ---

PLAIN = choice_question("a", "b")
MULTIPLE = choice_question("a", "b", multiple=True)
FREE = choice_question("a", "b", allow_custom=True, allow_notes=True)
FREE_MULTIPLE = choice_question("a", "b", multiple=True, allow_custom=True, allow_notes=True)
FULL = "x" * 8190

BAD_SUBMISSIONS: list[tuple[ask_pb2.Question, ask_pb2.AnswerSubmission]] = [
    (text_question(), chosen()),
    (PLAIN, text("a")),
    (PLAIN, ask_pb2.AnswerSubmission()),
    (PLAIN, chosen()),
    (PLAIN, chosen("a", "b")),
    (PLAIN, chosen("c")),
    (PLAIN, chosen("A")),
    (PLAIN, chosen("")),
    (MULTIPLE, chosen("a", "a")),
    (MULTIPLE, chosen("a", "c")),
    (MULTIPLE, chosen()),
    (PLAIN, chosen("a", custom="x")),
    (PLAIN, chosen("a", notes="x")),
    (FREE, chosen("a", custom="x")),
    (FREE, chosen("a", notes="")),
    (FREE, chosen(custom="")),
    (FREE, chosen(notes="x")),
    (FREE_MULTIPLE, chosen(notes="x")),
    (FREE, chosen(custom=FULL + "x")),
    (FREE, chosen("a", notes='"' * 4096)),
    (text_question(), text("x" * 65_535)),
    (text_question(), text("\x00" * 11_000)),
]


@pytest.mark.parametrize(("question", "submission"), BAD_SUBMISSIONS)
async def test_a_bad_submission_is_refused_and_changes_nothing(
    admin: Client, question: ask_pb2.Question, submission: ask_pb2.AnswerSubmission
) -> None:
    ask = await admin.ask(text_question(), question)
    refused = await refusal(admin.answer(ask.id, text(), submission))
    assert (refused.status, refused.reason, len(refused.fields)) == (INVALID, "answer_invalid", 1)
    assert re.fullmatch(r"answers\[1\](\.\w+)?", refused.fields[0])
    assert "answers[1]" in refused.message
    assert await admin.get(ask.id) == ask
    assert (await admin.ask()).created_revision == 2


@pytest.mark.parametrize("count", [1, 3])
async def test_each_question_is_answered_once(admin: Client, count: int) -> None:
    ask = await admin.ask(text_question(), text_question())
    refused = await refusal(admin.answer(ask.id, *[text()] * count))
    assert (refused.reason, refused.fields) == ("answer_invalid", ("answers",))


@pytest.mark.parametrize(
    ("question", "submission"),
    [
        (text_question(), text("")),
        (text_question(), text("x" * 65_534)),
        (FREE, chosen("a", notes=" ")),
        (FREE, chosen(custom="\u3000", notes="x")),
        (FREE, chosen(custom=FULL, notes=FULL)),
        (FREE_MULTIPLE, chosen("b", "a", custom="x", notes="x")),
        (FREE_MULTIPLE, chosen(custom="x")),
    ],
)
async def test_a_good_submission_is_accepted(
    admin: Client, question: ask_pb2.Question, submission: ask_pb2.AnswerSubmission
) -> None:
    ask = await admin.ask(question)
    [answer] = (await admin.answer(ask.id, submission)).answers
    if submission.HasField("text"):
        assert answer.text == submission.text
        return
    assert [item.id for item in answer.choice.selected] == sorted(submission.choice.selected_ids)
    for field in ("custom", "notes"):
        assert answer.choice.HasField(field) == submission.choice.HasField(field)
        assert getattr(answer.choice, field) == getattr(submission.choice, field)


# --- the order of checks ---


async def test_an_unknown_ask_comes_before_anything_wrong_with_the_answer(admin: Client) -> None:
    viewer = await admin.with_grants(grant("viewer", "w"))
    for client in (admin, viewer):
        for answer_id in ("", "a", "x" * 513):
            refused = await refusal(client.answer("que_unknown", chosen("x"), answer_id=answer_id))
            assert (refused.reason, refused.resource) == ("not_found", ("ask", "que_unknown"))
        assert (await refusal(client.reject("que_unknown", reason="x" * 9000))).reason == "not_found"
        assert (await refusal(client.cancel("que_unknown"))).reason == "not_found"


@pytest.mark.parametrize("named", [{"session_id": "other"}, {"turn_id": "other"}, {"session_id": "s", "turn_id": "s"}])
async def test_an_ask_is_not_found_in_another_session_or_turn(admin: Client, named: dict[str, Any]) -> None:
    ask = await admin.ask(turn_id="t")
    assert (await refusal(admin.answer(ask.id, **named))).reason == "not_found"
    assert (await refusal(admin.get(ask.id, **named))).reason == "not_found"
    right = {name: getattr(ask, name) for name in named}
    assert await admin.get(ask.id, **right) == ask
    assert (await admin.answer(ask.id, **right)).status == ANSWERED


async def test_the_role_comes_before_anything_wrong_with_the_answer(admin: Client) -> None:
    viewer = await admin.with_grants(grant("viewer", "w"), grant("asker", "w"))
    ask = await admin.ask()
    await admin.answer(ask.id, answer_id="a1")
    for answer_id in ("", "a1", "a2", "x" * 513):
        refused = await refusal(viewer.answer(ask.id, chosen("x"), answer_id=answer_id))
        assert (refused.status, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "permission_denied")
    assert (await refusal(viewer.reject(ask.id, reason="x" * 9000))).reason == "permission_denied"


async def test_a_known_answer_id_comes_before_the_state_and_that_before_the_submissions(admin: Client) -> None:
    ask = await admin.ask()
    await admin.answer(ask.id, answer_id="a1")
    assert (await refusal(admin.answer(ask.id, chosen("x"), answer_id="a1"))).reason == "answer_id_conflict"
    assert (await refusal(admin.answer(ask.id, chosen("x"), answer_id="a2"))).reason == "ask_already_resolved"
    assert (await refusal(admin.reject(ask.id, reason="x" * 9000))).reason == "ask_already_resolved"


# --- rejecting and cancelling ---


async def test_a_rejected_ask_keeps_its_reason(admin: Client) -> None:
    reason = "не сейчас\x00" * 400
    ask = await admin.ask()
    rejected = await admin.reject(ask.id, reason=reason)
    expected = ask_pb2.AskState()
    expected.CopyFrom(ask)
    expected.MergeFrom(
        ask_pb2.AskState(
            status=REJECTED,
            rejected_at=rejected.rejected_at,
            reject_reason=reason,
            resolved_revision=2,
            resolved_by_api_key_id=await admin.key_id(),
        )
    )
    assert rejected == expected
    assert await admin.get(ask.id) == expected


async def test_a_rejection_without_a_reason_has_none(admin: Client) -> None:
    ask = await admin.ask()
    assert not (await admin.reject(ask.id)).HasField("reject_reason")


async def test_a_reject_reason_is_at_most_8_kib(admin: Client) -> None:
    ask = await admin.ask()
    refused = await refusal(admin.reject(ask.id, reason="x" * 8193))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("reason",))
    assert await admin.get(ask.id) == ask
    assert (await admin.reject(ask.id, reason="x" * 8192)).reject_reason == "x" * 8192


async def test_a_cancelled_ask_was_withdrawn(admin: Client) -> None:
    ask = await admin.ask()
    cancelled = await admin.cancel(ask.id)
    expected = ask_pb2.AskState()
    expected.CopyFrom(ask)
    expected.MergeFrom(
        ask_pb2.AskState(
            status=CANCELLED,
            cancelled_at=cancelled.cancelled_at,
            cancel_reason=ask_pb2.CANCEL_REASON_WITHDRAWN,
            resolved_revision=2,
            resolved_by_api_key_id=await admin.key_id(),
        )
    )
    assert cancelled == expected


Resolve = Callable[[Client, str], Awaitable[ask_pb2.AskState]]
RESOLUTIONS: dict[str, Resolve] = {
    "answered": lambda client, ask_id: client.answer(ask_id, answer_id="loser"),
    "rejected": lambda client, ask_id: client.reject(ask_id, reason="no"),
    "cancelled": lambda client, ask_id: client.cancel(ask_id),
}


def winner(ask: ask_pb2.AskState) -> dict[str, str]:
    """What each loser's error says of the resolution that came first."""
    status = ask_pb2.AskStatus.Name(ask.status).removeprefix("ASK_STATUS_").lower()
    resolved_at = getattr(ask, f"{status}_at").ToJsonString()
    return {
        "status": status,
        "resolved_at": resolved_at,
        "resolved_revision": str(ask.resolved_revision),
        "resolved_by": f"key:{ask.resolved_by_api_key_id}",
    }


def check_loser(refused: Refusal, ask: ask_pb2.AskState) -> None:
    assert (refused.status, refused.reason) == (PRECONDITION, "ask_already_resolved")
    said, expected = dict(refused.metadata), winner(ask)
    assert _microseconds(said.pop("resolved_at")) == _microseconds(expected.pop("resolved_at"))
    assert said == expected


def _microseconds(time: str) -> int:
    from google.protobuf.timestamp_pb2 import Timestamp

    message = Timestamp()
    message.FromJsonString(time)
    return message.ToMicroseconds()


@pytest.mark.parametrize("first", RESOLUTIONS)
@pytest.mark.parametrize("second", RESOLUTIONS)
async def test_what_comes_second_is_told_what_came_first(admin: Client, first: str, second: str) -> None:
    one, other = await admin.with_grants(grant("admin", "w")), await admin.with_grants(grant("admin", "w"))
    ask = await admin.ask()
    await RESOLUTIONS[first](one, ask.id)
    resolved = await admin.get(ask.id)
    if first == second == "answered":
        refused = await refusal(other.answer(ask.id, answer_id="other"))
    else:
        refused = await refusal(RESOLUTIONS[second](other, ask.id))
    check_loser(refused, resolved)
    assert refused.metadata["resolved_by"] == f"key:{await one.key_id()}"
    assert await admin.get(ask.id) == resolved


@pytest.mark.parametrize("resolve", [RESOLUTIONS["rejected"], RESOLUTIONS["cancelled"]])
async def test_only_answers_can_be_replayed(admin: Client, resolve: Resolve) -> None:
    ask = await admin.ask()
    await resolve(admin, ask.id)
    assert (await refusal(resolve(admin, ask.id))).reason == "ask_already_resolved"


async def test_racing_resolutions_have_one_winner(admin: Client) -> None:
    ask = await admin.ask()
    calls = [resolve(admin, ask.id) for resolve in RESOLUTIONS.values() for _ in range(10)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    resolved = await admin.get(ask.id)
    assert resolved.status != PENDING
    wins = [result for result in results if isinstance(result, ask_pb2.AskState)]
    # The ten answers share an id, so that all of them may be receipts of one.
    assert len(wins) == (10 if resolved.status == ANSWERED else 1)
    assert (await admin.ask()).created_revision == 3
