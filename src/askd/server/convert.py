"""Between protobuf messages and the domain. Whatever is wrong in a message is an AskdError."""

from collections.abc import Iterable

from google.protobuf import duration_pb2, timestamp_pb2

from askd.domain import limits
from askd.domain.advice import Advice, Confidence, TokenUsage
from askd.domain.asks import Ask, AskDraft, AskEvent, AskFilter, AskStatus, CancelReason, EventType, ToolCall
from askd.domain.errors import AskdError, invalid
from askd.domain.principals import ALL_WORKSPACES, Grant, Principal, PrincipalKind, Role
from askd.domain.sessions import TurnOutcome
from askd.domain.text import check_identifier, check_printable, check_size
from askd.domain.validation import check_questions
from askd.store.keys import ApiKey
from askd.v1 import ask_pb2, ask_service_pb2, key_service_pb2, session_service_pb2
from askd.wire.content import fill_answer, fill_question, question_from_proto, submission_to_proto

MICROSECONDS = 1_000_000
SHORTEST_EXPIRY = MICROSECONDS
LONGEST_EXPIRY = 365 * 24 * 3600 * MICROSECONDS

_STATUSES = {status: ask_pb2.AskStatus.Value(f"ASK_STATUS_{status.name}") for status in AskStatus}
_STATUS_OF: dict[int, AskStatus] = {number: status for status, number in _STATUSES.items()}
_REASONS = {reason: ask_pb2.CancelReason.Value(f"CANCEL_REASON_{reason.name}") for reason in CancelReason}
_CONFIDENCES = {level: ask_pb2.Confidence.Value(f"CONFIDENCE_{level.name}") for level in Confidence}
_EVENTS = {kind: ask_pb2.AskEventType.Value(f"ASK_EVENT_TYPE_{kind.name}") for kind in EventType}
_OUTCOMES = {item: session_service_pb2.TurnOutcome.Value(f"TURN_OUTCOME_{item.name}") for item in TurnOutcome}
_OUTCOME_OF: dict[int, TurnOutcome] = {number: item for item, number in _OUTCOMES.items()}
_ROLES = {role: key_service_pb2.Role.Value(f"ROLE_{role.name}") for role in Role}
_ROLE_OF: dict[int, Role] = {number: role for role, number in _ROLES.items()}


def draft(request: ask_service_pb2.AskRequest) -> AskDraft | AskdError:
    """What is asked, or what is wrong with it."""
    try:
        return AskDraft(
            session_id=check_identifier(request.session_id, "session_id"),
            turn_id=check_identifier(request.turn_id, "turn_id") if request.turn_id else None,
            questions=check_questions(
                [question_from_proto(item, f"questions[{index}]") for index, item in enumerate(request.questions)]
            ),
            tool=_tool(request.tool) if request.HasField("tool") else None,
            expires_in=_expiry(request.expires_in) if request.HasField("expires_in") else None,
        )
    except AskdError as error:
        return error


def _expiry(message: duration_pb2.Duration) -> int:
    span = microseconds(message, "expires_in")
    if not SHORTEST_EXPIRY <= span <= LONGEST_EXPIRY:
        raise invalid("expires_in", "must be 1 second to 365 days")
    return span


def _tool(message: ask_pb2.ToolCall) -> ToolCall:
    return ToolCall(
        message_id=check_size(message.message_id, "tool.message_id", limits.REQUEST_IDENTIFIER),
        call_id=check_size(message.call_id, "tool.call_id", limits.REQUEST_IDENTIFIER),
    )


def ask_filter(workspace_id: str, session_id: str, turn_id: str, statuses: Iterable[int]) -> AskFilter:
    """The filter of a list or a watch."""
    return AskFilter(
        workspace_id=workspace_id,
        session_id=session_id and check_identifier(session_id, "session_id"),
        turn_id=turn_id and check_identifier(turn_id, "turn_id"),
        statuses=frozenset(_status(number, index) for index, number in enumerate(statuses)),
    )


def _status(number: int, index: int) -> AskStatus:
    if number not in _STATUS_OF:
        raise invalid(f"statuses[{index}]", "is no status")
    return _STATUS_OF[number]


def microseconds(message: duration_pb2.Duration, field: str) -> int:
    """A span that is not negative, in microseconds."""
    span = message.seconds * MICROSECONDS + message.nanos // 1000
    if span < 0:
        raise invalid(field, "must not be negative")
    return span


def fill_ask(message: ask_pb2.AskState, ask: Ask, *, questions: bool = True) -> None:
    """Set a message to an ask, without its questions where it is a receipt."""
    message.id = ask.id
    message.workspace_id = ask.workspace_id
    message.session_id = ask.session_id
    if ask.turn_id is not None:
        message.turn_id = ask.turn_id
    message.status = _STATUSES[ask.status]
    message.created_revision = ask.created_revision
    message.payload_expired = ask.payload_expired
    _fill_time(message.created_at, ask.created_at)
    _fill_principal(message, "asked_by", ask.asked_by)
    if ask.expires_at is not None:
        _fill_time(message.expires_at, ask.expires_at)
    if ask.tool is not None:
        message.tool.message_id = ask.tool.message_id
        message.tool.call_id = ask.tool.call_id
    if questions:
        for question in ask.questions:
            fill_question(message.questions.add(), question)
    if ask.resolved_at is not None:
        _fill_resolution(message, ask, ask.resolved_at)


def _fill_resolution(message: ask_pb2.AskState, ask: Ask, resolved_at: int) -> None:
    match ask.status:
        case AskStatus.ANSWERED:
            _fill_time(message.answered_at, resolved_at)
        case AskStatus.REJECTED:
            _fill_time(message.rejected_at, resolved_at)
        case _:
            _fill_time(message.cancelled_at, resolved_at)
    if ask.resolved_revision is not None:
        message.resolved_revision = ask.resolved_revision
    if ask.resolved_by is not None:
        _fill_principal(message, "resolved_by", ask.resolved_by)
    if ask.reject_reason is not None:
        message.reject_reason = ask.reject_reason
    if ask.cancel_reason is not None:
        message.cancel_reason = _REASONS[ask.cancel_reason]
    for answer in ask.answers:
        fill_answer(message.answers.add(), answer)


def _fill_principal(message: ask_pb2.AskState, field: str, principal: Principal) -> None:
    kind = "user_id" if principal.kind is PrincipalKind.USER else "api_key_id"
    setattr(message, f"{field}_{kind}", principal.id)


def _fill_time(message: timestamp_pb2.Timestamp, at: int) -> None:
    message.seconds, rest = divmod(at, MICROSECONDS)
    message.nanos = rest * 1000


def event_to_bytes(event: AskEvent) -> bytes:
    """An event as a whole WatchAsksResponse. Serialized messages that stand one after another are their merge, so a
    response of many events is the bytes of these in a row."""
    response = ask_service_pb2.WatchAsksResponse()
    message = response.events.add(type=_EVENTS[event.type], revision=event.revision)
    fill_ask(message.ask, event.ask)
    return response.SerializeToString()


def grants(messages: Iterable[key_service_pb2.Grant]) -> frozenset[Grant]:
    """The grants of messages."""
    return frozenset(grant(message, f"grants[{index}]") for index, message in enumerate(messages))


def grant(message: key_service_pb2.Grant, path: str) -> Grant:
    """The grant of a message."""
    if message.role not in _ROLE_OF:
        raise invalid(f"{path}.role", "is no role")
    if message.workspace_id != ALL_WORKSPACES:
        check_identifier(message.workspace_id, f"{path}.workspace_id")
    return Grant(role=_ROLE_OF[message.role], workspace_id=message.workspace_id, session_id=message.session_id)


def grants_to_proto(granted: Iterable[Grant]) -> list[key_service_pb2.Grant]:
    """The messages of grants, in a stable order."""
    return [
        key_service_pb2.Grant(role=_ROLES[item.role], workspace_id=item.workspace_id, session_id=item.session_id)
        for item in sorted(granted)
    ]


def principal(text: str) -> Principal:
    """The principal of `user:ID` or `key:ID`."""
    check_printable(check_size(text, "principal", limits.NAME), "principal")
    kind, _, identifier = text.partition(":")
    if kind not in list(PrincipalKind) or not identifier:
        raise invalid("principal", "must be user:ID or key:ID")
    return Principal(kind=PrincipalKind(kind), id=identifier)


def key_to_proto(key: ApiKey) -> key_service_pb2.ApiKey:
    """The message of an API key."""
    message = key_service_pb2.ApiKey(id=key.id, name=key.name, grants=grants_to_proto(key.grants))
    _fill_time(message.created_at, key.created_at)
    if key.expires_at is not None:
        _fill_time(message.expires_at, key.expires_at)
    if key.revoked_at is not None:
        _fill_time(message.revoked_at, key.revoked_at)
    return message


def advice_to_proto(advice: Advice, usage: TokenUsage) -> ask_service_pb2.ConsultAskResponse:
    """The response that carries advice."""
    return ask_service_pb2.ConsultAskResponse(
        recommendation=advice.recommendation,
        reasoning=advice.reasoning,
        confidence=_CONFIDENCES[advice.confidence],
        usage=ask_pb2.TokenUsage(
            prompt_tokens=usage.prompt, completion_tokens=usage.completion, total_tokens=usage.total
        ),
        submissions=map(submission_to_proto, advice.submissions),
    )


def outcome(number: int) -> TurnOutcome:
    """How a turn is to end."""
    if number not in _OUTCOME_OF:
        raise invalid("outcome", "is no outcome")
    return _OUTCOME_OF[number]


def outcome_to_proto(value: TurnOutcome) -> session_service_pb2.TurnOutcome.ValueType:
    """How a turn ended."""
    return _OUTCOMES[value]
