"""The requests that are sent, serialized before any clock runs."""

import json

from google.protobuf import duration_pb2

from askd.v1 import ask_pb2, ask_service_pb2, session_service_pb2

SERVICE = "/askd.v1.AskService"
ASK, WAIT, GET, LIST, WATCH = (f"{SERVICE}/{name}" for name in ("Ask", "WaitAsk", "GetAsk", "ListAsks", "WatchAsks"))
ANSWER, REJECT, CANCEL = (f"{SERVICE}/{name}" for name in ("AnswerAsk", "RejectAsk", "CancelAsk"))
END_TURN = "/askd.v1.SessionService/EndTurn"
WORKSPACE = "bench"
QUESTION_BYTES = 1024
SENTENCE = "The migration drops a column that two services still read; shall it run now or after the next release? "
OPTIONS = ("Run it now", "Run it after the release", "Keep the column", "Ask the owners first")


def question(kind: str) -> ask_pb2.Question:
    """A question of 1 KB: exactly that many bytes as canonical JSON."""
    plain = {"prompt": [{"text": "", "type": "text"}], "type": kind}
    if kind == "choice":
        plain["options"] = [{"id": str(n), "label": label, "value": label} for n, label in enumerate(OPTIONS)]
    room = QUESTION_BYTES - len(json.dumps(plain, separators=(",", ":")))
    text = (SENTENCE * (room // len(SENTENCE) + 1))[:room]
    asked = ask_pb2.Question(prompt=[ask_pb2.ContentPart(text=text)])
    if kind == "choice":
        add_options(asked.choice)
    else:
        asked.text.SetInParent()
    return asked


def add_options(choice: ask_pb2.ChoiceQuestion) -> None:
    for number, label in enumerate(OPTIONS):
        choice.options.add(id=str(number), label=label).value.string_value = label


def ask(kind: str, caller: int, workspace: str = WORKSPACE) -> bytes:
    """An ask of one question in the caller's own session and turn."""
    return ask_in(kind, f"session-{caller}", f"turn-{caller}", workspace)


def ask_in(kind: str, session: str, turn: str = "", workspace: str = WORKSPACE) -> bytes:
    """An ask in some session; without a turn there is no budget that many of them could use up."""
    request = ask_service_pb2.AskRequest(
        workspace_id=workspace, session_id=session, turn_id=turn, questions=[question(kind)]
    )
    return request.SerializeToString()


def answer(kind: str, ask_id: str) -> bytes:
    submission = ask_pb2.AnswerSubmission(text="After the release.")
    if kind == "choice":
        submission = ask_pb2.AnswerSubmission(choice=ask_pb2.ChoiceSubmission(selected_ids=["1"]))
    request = ask_service_pb2.AnswerAskRequest(
        workspace_id=WORKSPACE, ask_id=ask_id, answer_id=f"answer-{ask_id}", answers=[submission]
    )
    return request.SerializeToString()


def wait(ask_id: str) -> bytes:
    """Longer than any run."""
    timeout = duration_pb2.Duration(seconds=86400)
    request = ask_service_pb2.WaitAskRequest(workspace_id=WORKSPACE, ask_id=ask_id, timeout=timeout)
    return request.SerializeToString()


def reject(ask_id: str) -> bytes:
    return ask_service_pb2.RejectAskRequest(workspace_id=WORKSPACE, ask_id=ask_id).SerializeToString()


def cancel(ask_id: str) -> bytes:
    return ask_service_pb2.CancelAskRequest(workspace_id=WORKSPACE, ask_id=ask_id).SerializeToString()


def end_turn(turn: str) -> bytes:
    request = session_service_pb2.EndTurnRequest(
        workspace_id=WORKSPACE, session_id="ending", turn_id=turn, outcome=session_service_pb2.TURN_OUTCOME_COMPLETED
    )
    return request.SerializeToString()


def get(ask_id: str) -> bytes:
    return ask_service_pb2.GetAskRequest(workspace_id=WORKSPACE, ask_id=ask_id).SerializeToString()


def page(limit: int, *, session: str = "", pending: bool = False) -> bytes:
    statuses = [ask_pb2.ASK_STATUS_PENDING] if pending else []
    request = ask_service_pb2.ListAsksRequest(
        workspace_id=WORKSPACE, session_id=session, statuses=statuses, limit=limit
    )
    return request.SerializeToString()


def watch(session: str = "", after: int | None = None) -> bytes:
    request = ask_service_pb2.WatchAsksRequest(workspace_id=WORKSPACE, session_id=session, after_revision=after)
    return request.SerializeToString()


def asked_id(response: bytes) -> str:
    """The id in the response of Ask."""
    return ask_service_pb2.AskResponse.FromString(response).ask.id


def is_synced(response: bytes) -> bool:
    """Whether a response of WatchAsks ends what was past when the watch began."""
    return ask_service_pb2.WatchAsksResponse.FromString(response).synced


def revision_of(response: bytes) -> int:
    """The revision in a response of WatchAsks."""
    return ask_service_pb2.WatchAsksResponse.FromString(response).revision


def count_events(response: bytes) -> int:
    """How many events a response of WatchAsks holds."""
    return len(ask_service_pb2.WatchAsksResponse.FromString(response).events)
