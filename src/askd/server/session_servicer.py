"""SessionService: convert, call, convert."""

from typing import Any

import grpc

from askd.domain.text import check_identifier
from askd.server import convert
from askd.server.interceptor import caller
from askd.service.sessions import Sessions
from askd.v1 import session_service_pb2 as pb
from askd.v1.session_service_pb2_grpc import SessionServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class SessionServicer(SessionServiceServicer):
    """See SessionService in protos/askd/v1/session_service.proto for what each method does."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def OpenSession(self, request: pb.OpenSessionRequest, context: Context) -> pb.OpenSessionResponse:
        """Open a session."""
        access = caller().enter(request.workspace_id)
        session_id = check_identifier(request.session_id, "session_id")
        parent = request.parent_session_id and check_identifier(request.parent_session_id, "parent_session_id")
        await self._sessions.open_session(access, session_id, parent or None)
        return pb.OpenSessionResponse()

    async def EndTurn(self, request: pb.EndTurnRequest, context: Context) -> pb.EndTurnResponse:
        """End a turn."""
        access = caller().enter(request.workspace_id)
        session_id = check_identifier(request.session_id, "session_id")
        turn_id = check_identifier(request.turn_id, "turn_id")
        ended = await self._sessions.end_turn(access, session_id, turn_id, convert.outcome(request.outcome))
        return pb.EndTurnResponse(
            outcome=convert.outcome_to_proto(ended.outcome),
            unjoined_ask_ids=ended.unjoined,
            unjoined_count=ended.unjoined_count,
        )

    async def EndSession(self, request: pb.EndSessionRequest, context: Context) -> pb.EndSessionResponse:
        """End a session."""
        access = caller().enter(request.workspace_id)
        await self._sessions.end_session(access, check_identifier(request.session_id, "session_id"))
        return pb.EndSessionResponse()
