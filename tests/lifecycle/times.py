"""A clock that tests set, and clients of the session service."""

from typing import Any

from tests.clients import LIMIT, Client

from askd.server.app import utc_microseconds
from askd.v1 import session_service_pb2 as pb
from askd.v1.session_service_pb2_grpc import SessionServiceStub

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND


class Clock:
    """A clock that goes only where it is put. Begins now."""

    def __init__(self) -> None:
        self.now = utc_microseconds()

    def __call__(self) -> int:
        return self.now


async def open_session(client: Client, session_id: str = "s", parent: str = "") -> None:
    request = pb.OpenSessionRequest(workspace_id="w", session_id=session_id, parent_session_id=parent)
    await SessionServiceStub(client.channel).OpenSession(request, metadata=client.metadata, timeout=LIMIT)


async def end_session(client: Client, session_id: str = "s", limit: float = LIMIT) -> None:
    request = pb.EndSessionRequest(workspace_id="w", session_id=session_id)
    await SessionServiceStub(client.channel).EndSession(request, metadata=client.metadata, timeout=limit)


async def end_turn(client: Client, outcome: str, turn_id: str = "t") -> Any:
    request = pb.EndTurnRequest(
        workspace_id="w", session_id="s", turn_id=turn_id, outcome=pb.TurnOutcome.Value(f"TURN_OUTCOME_{outcome}")
    )
    return await SessionServiceStub(client.channel).EndTurn(request, metadata=client.metadata, timeout=LIMIT)


def outcome_name(response: Any) -> str:
    return pb.TurnOutcome.Name(response.outcome).removeprefix("TURN_OUTCOME_")
