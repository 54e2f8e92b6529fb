"""The one table of errors: codes, reasons and statuses correspond, and details stay small (CONTRACT section 6)."""

import re
from pathlib import Path

import grpc
import pytest
from google.rpc import status_pb2

from askd.domain.errors import AskdError, Code
from askd.server.errors import STATUS, details_of, message_of
from askd.v1 import error_reason_pb2

CONTRACT = {
    "INVALID_ARGUMENT": "invalid_arguments content_kind_unsupported content_limit_exceeded answer_invalid "
    "provider_unknown",
    "UNAUTHENTICATED": "unauthenticated",
    "PERMISSION_DENIED": "permission_denied",
    "NOT_FOUND": "not_found",
    "FAILED_PRECONDITION": "ask_already_resolved turn_ended session_ended session_not_root output_budget_exceeded",
    "ALREADY_EXISTS": "answer_id_conflict request_id_conflict",
    "OUT_OF_RANGE": "revision_compacted",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "INTERNAL": "model_output_invalid",
    "UNAVAILABLE": "provider_unavailable unavailable",
    "DEADLINE_EXCEEDED": "deadline_exceeded",
}
REASONS = [name for name in error_reason_pb2.ErrorReason.keys() if not name.endswith("_UNSPECIFIED")]  # noqa: SIM118
HUGE = "ж€😀\x00" * 300_000


def test_each_code_is_one_reason_of_the_protos() -> None:
    assert [f"ERROR_REASON_{code.name}" for code in Code] == REASONS
    assert all(code.value == code.name.lower() for code in Code)


def test_each_code_has_the_status_of_the_contract() -> None:
    expected = {code: status for status, codes in CONTRACT.items() for code in codes.split()}
    assert {code.value: status.name for code, status in STATUS.items()} == expected


def test_the_protos_name_the_status_of_each_reason() -> None:
    source = (Path(__file__).parents[2] / "protos/askd/v1/error_reason.proto").read_text()
    documented = re.findall(r"([A-Z_]+)\.\n  (ERROR_REASON_\w+) = [1-9]", source)
    assert {reason: status for status, reason in documented} == {
        f"ERROR_REASON_{code.name}": status.name for code, status in STATUS.items()
    }


@pytest.mark.parametrize("code", list(Code))
def test_what_users_wrote_cannot_blow_an_error_up(code: Code) -> None:
    error = AskdError(
        code,
        HUGE,
        field=HUGE,
        metadata={"status": HUGE, "resolved_at": HUGE, "resolved_revision": HUGE, "resolved_by": HUGE},
        resource=(code.value, HUGE),
        retry_after=1.5,
    )
    status = status_pb2.Status.FromString(details_of(error))
    assert len(details_of(error)) < 4096
    # The message goes into a header of its own, where a byte that is no printable ASCII takes three.
    assert len(details_of(error)) * 4 / 3 + len(message_of(error).encode()) * 3 < 8192
    assert (status.code, status.message) == (STATUS[code].value[0], message_of(error))
    assert isinstance(STATUS[code], grpc.StatusCode)
    assert HUGE.startswith(status.message.removesuffix("…"))


def test_a_text_that_no_encoding_can_carry_does_not_break_an_error() -> None:
    error = AskdError(Code.NOT_FOUND, "ask \ud800 not found", field="\udfff", resource=("ask", "\ud800"))
    assert status_pb2.Status.FromString(details_of(error)).message == "ask ? not found"
