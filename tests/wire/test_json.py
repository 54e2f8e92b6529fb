"""Asks as JSON data, and submissions from it (CONTRACT sections 2, 3 and 7)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.samples import located_refusal
from tests.domain.strategies import examples

from askd.domain.answers import ChoiceSubmission
from askd.domain.errors import Code
from askd.domain.questions import TextPart, TextQuestion
from askd.v1 import ask_pb2 as pb
from askd.wire import json as wire_json
from askd.wire.content import question_to_proto

# --- submissions ---


@pytest.mark.parametrize(
    ("data", "submission"),
    [
        ("", ""),
        ("a\x00b", "a\x00b"),
        ({"selectedIds": []}, ChoiceSubmission()),
        ({"selectedIds": ["b", "a", "a"]}, ChoiceSubmission(selected_ids=("b", "a", "a"))),
        (
            {"selectedIds": ["a"], "custom": "", "notes": " "},
            ChoiceSubmission(selected_ids=("a",), custom="", notes=" "),
        ),
    ],
)
def test_a_submission_is_a_string_or_a_choice(data: Any, submission: object) -> None:
    assert wire_json.submission(data, 0) == submission


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (None, ""),
        (1, ""),
        (True, ""),
        ([], ""),
        ({}, "selectedIds"),
        ({"custom": "mine"}, "selectedIds"),
        ({"selectedIds": None}, "selectedIds"),
        ({"selectedIds": "a"}, "selectedIds"),
        ({"selectedIds": {"a": 1}}, "selectedIds"),
        ({"selectedIds": [1]}, "selectedIds"),
        ({"selectedIds": ["a", None]}, "selectedIds"),
        ({"selectedIds": [], "custom": None}, "custom"),
        ({"selectedIds": [], "notes": 1}, "notes"),
        ({"selectedIds": [], "value": 1}, "value"),
        ({"selectedIds": [], "selected_ids": []}, "selected_ids"),
        ({"selectedIds": [], "": 1}, ""),
        ({"selectedIds": [], 5: 1}, ""),
        ("\ud800", ""),
        ({"selectedIds": ["\ud800"]}, "selectedIds"),
        ({"selectedIds": [], "custom": "\udfff"}, "custom"),
        ({"selectedIds": [], "notes": "\udfff"}, "notes"),
        ({"selectedIds": [], "\ud800": 1}, ""),
    ],
)
def test_any_other_data_is_no_answer(data: Any, name: str) -> None:
    field = f"answers[3].{name}" if name else "answers[3]"
    error = located_refusal(lambda: wire_json.submission(data, 3), Code.ANSWER_INVALID, field)
    assert error.message.encode()


# --- times and names ---


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006Z"),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00Z"),
    ],
)
def test_times_are_rfc_3339_in_utc(at: datetime, text: str) -> None:
    message = Timestamp()
    message.FromDatetime(at)
    assert wire_json.time(message) == text


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001  # the zone is added below
@examples(100)
def test_times_read_back_as_they_were_written(at: datetime) -> None:
    message = Timestamp()
    message.FromDatetime(at.replace(tzinfo=UTC))
    assert wire_json.parse_time(wire_json.time(message)) == at.replace(tzinfo=UTC)


def test_names_are_in_camel_case_and_states_are_words() -> None:
    assert wire_json.camel("created_at") == "createdAt"
    assert wire_json.camel("id") == "id"
    assert wire_json.camel("resolved_by_api_key_id") == "resolvedByApiKeyId"
    assert wire_json.word("CANCEL_REASON_TURN_ENDED", "CANCEL_REASON_") == "turn_ended"


# --- asks ---


def pending_ask() -> pb.AskState:
    question = question_to_proto(TextQuestion(prompt=(TextPart(text="Why?"),)))
    return pb.AskState(
        id="que_1",
        workspace_id="w",
        session_id="s",
        status=pb.ASK_STATUS_PENDING,
        questions=[question],
        created_at=Timestamp(seconds=0, nanos=1000),
        created_revision=1,
        asked_by_api_key_id="key_1",
    )


PENDING = {
    "id": "que_1",
    "workspaceId": "w",
    "sessionId": "s",
    "status": "pending",
    "createdRevision": 1,
    "createdAt": "1970-01-01T00:00:00.000001Z",
    "askedBy": {"kind": "api_key", "id": "key_1"},
    "questions": [{"type": "text", "prompt": [{"type": "text", "text": "Why?"}]}],
}


def test_what_does_not_apply_to_an_ask_is_left_out() -> None:
    assert wire_json.ask(pending_ask()) == PENDING


def test_an_answered_ask_says_what_when_and_by_whom() -> None:
    message = pending_ask()
    message.MergeFrom(
        pb.AskState(
            turn_id="t",
            status=pb.ASK_STATUS_ANSWERED,
            answers=[pb.Answer(text="")],
            answered_at=Timestamp(seconds=60),
            resolved_revision=2,
            resolved_by_user_id="ann",
            tool=pb.ToolCall(message_id="m"),
        )
    )
    assert wire_json.ask(message) == PENDING | {
        "turnId": "t",
        "status": "answered",
        "answers": [""],
        "answeredAt": "1970-01-01T00:01:00Z",
        "resolvedRevision": 2,
        "resolvedBy": {"kind": "user", "id": "ann"},
        "tool": {"messageId": "m", "callId": ""},
    }


def test_a_rejected_ask_says_why_even_where_the_reason_is_empty() -> None:
    message = pending_ask()
    message.MergeFrom(
        pb.AskState(
            status=pb.ASK_STATUS_REJECTED, rejected_at=Timestamp(), reject_reason="", resolved_by_api_key_id="key_2"
        )
    )
    assert wire_json.ask(message) == PENDING | {
        "status": "rejected",
        "rejectedAt": "1970-01-01T00:00:00Z",
        "rejectReason": "",
        "resolvedBy": {"kind": "api_key", "id": "key_2"},
    }


def test_an_expired_ask_was_cancelled_by_nobody() -> None:
    message = pending_ask()
    message.MergeFrom(
        pb.AskState(
            status=pb.ASK_STATUS_CANCELLED,
            cancelled_at=Timestamp(seconds=2),
            expires_at=Timestamp(seconds=1),
            cancel_reason=pb.CANCEL_REASON_EXPIRED,
        )
    )
    assert wire_json.ask(message) == PENDING | {
        "status": "cancelled",
        "cancelledAt": "1970-01-01T00:00:02Z",
        "expiresAt": "1970-01-01T00:00:01Z",
        "cancelReason": "expired",
    }


def test_an_erased_payload_is_said_to_be() -> None:
    message = pending_ask()
    message.ClearField("questions")
    message.payload_expired = True
    assert wire_json.ask(message) == {name: value for name, value in PENDING.items() if name != "questions"} | {
        "payloadExpired": True
    }
