"""The client for programs that use asyncio."""

import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message import Message

from askd.client import content
from askd.client.connection import Connection, metadata_of, open_channel
from askd.client.content import QuestionLike, Span, SubmissionLike, ToolLike, new_id
from askd.client.errors import RequestError, refusing
from askd.client.turns import AsyncTurn
from askd.client.watching import Watch, WatchItem
from askd.domain.errors import Code
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.v1 import key_service_pb2 as keys
from askd.v1 import session_service_pb2 as sessions
from askd.v1.ask_service_pb2_grpc import AskServiceStub
from askd.v1.key_service_pb2_grpc import KeyServiceStub
from askd.v1.session_service_pb2_grpc import SessionServiceStub

_Message = TypeVar("_Message", bound=Message)

TIMEOUT = 30.0  # seconds of a call, retries included
CONSULT_TIMEOUT = 150.0  # seconds: a provider's own timeout, its default twice over, lies within
WAIT_ROUND = 60.0  # seconds of one WaitAsk call of a longer wait
WAIT_GRACE = 5.0  # seconds more than its round that a WaitAsk call may take
PAGE = 100  # asks


class AsyncClient:
    """A client of one askd server, over one connection.

        async with AsyncClient("127.0.0.1:50051", key) as client, client.turn("deploy") as turn:
            port = (await turn.ask("Which port?")).answer

    `key` is sent as the credential, "" sends none. `workspace` is named in every call; "" leaves it to the server
    (CONTRACT section 6). A call takes at most `timeout` seconds, and for `patience` seconds of these (by default all)
    it is tried again with growing pauses while the server is unavailable. `credentials` are those of TLS, made by
    tls_credentials(); without them the connection is plain text. `address` may be any name that gRPC resolves, also to
    several servers, over which a service config among the `channel_options`, which are gRPC's, spreads the calls.

    Asks are returned as `askd.v1.AskState` messages. Every method raises RequestError with the contract's `.code`;
    data that is no question raises QuestionError, which is one, before anything is sent.
    """

    def __init__(
        self,
        address: str,
        key: str = "",
        *,
        workspace: str = "",
        timeout: float = TIMEOUT,
        patience: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        channel_options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Opens nothing yet: `async with` does. ValueError for a key that no header can carry."""
        self.address = address
        self.workspace = workspace
        self._metadata = metadata_of(key)
        self._timeout = timeout
        self._patience = timeout if patience is None else patience
        self._credentials = credentials
        self._channel_options = channel_options

    async def __aenter__(self) -> Self:
        channel = open_channel(self.address, self._credentials, self._channel_options)
        self._connection = Connection(channel, self._metadata, self._timeout, self._patience)
        self._call = self._connection.call
        self._asks = AskServiceStub(channel)
        self._keys = KeyServiceStub(channel)
        self._sessions = SessionServiceStub(channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.channel.close()

    def _request(self, kind: type[_Message], **fields: Any) -> _Message:
        # What protobuf itself refuses: lone surrogates, numbers beyond 64 bits.
        with refusing():
            return kind(workspace_id=self.workspace, **fields)

    async def ask(
        self,
        questions: QuestionLike | Sequence[QuestionLike],
        *,
        session: str,
        turn: str = "",
        request_id: str = "",
        tool: ToolLike | None = None,
        expires_in: Span | None = None,
    ) -> pb.AskState:
        """Ask one question or several together, and return the stored ask (CONTRACT section 2).

        A question is JSON data, a dataclass, a message, or the prompt of a text question. `expires_in` is in seconds.
        Without a `request_id` one is made, so that retries are safe. Raises QuestionError; RequestError with
        output_budget_exceeded, turn_ended, session_ended, session_not_root, request_id_conflict and the like.
        """
        request = self._request(
            rpc.AskRequest,
            session_id=session,
            turn_id=turn,
            questions=content.questions(questions),
            request_id=request_id or new_id(),
            tool=content.tool(tool),
            expires_in=content.span(expires_in),
        )
        return (await self._call(self._asks.Ask, request)).ask

    async def wait(self, ask: str | pb.AskState, *, timeout: float | None = None) -> pb.AskState:
        """Wait until an ask, which is named by its id or as it was last seen, is resolved, at most `timeout` seconds
        (None: without end), and return it, resolved or still pending. Outlives restarts of the server. Raises
        not_found; unavailable where it is away at the end."""
        until = None if timeout is None else time.monotonic() + timeout
        if isinstance(ask, str):
            ask = await self.get(ask)
        while ask.status == pb.ASK_STATUS_PENDING:
            left = WAIT_ROUND if until is None else min(WAIT_ROUND, until - time.monotonic())
            if left <= 0:
                break
            ask = await self._wait_round(ask, left, last=left < WAIT_ROUND)
        return ask

    async def _wait_round(self, ask: pb.AskState, seconds: float, *, last: bool) -> pb.AskState:
        request = self._request(rpc.WaitAskRequest, ask_id=ask.id, timeout=content.span(seconds))
        try:
            response = await self._call(self._asks.WaitAsk, request, timeout=seconds + WAIT_GRACE, patience=seconds)
        except RequestError as failure:
            if last or failure.code not in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                raise
            return ask
        return response.ask

    async def get(self, ask_id: str, *, session: str = "", turn: str = "") -> pb.AskState:
        """One ask; with `session` or `turn` only where it is of them. Raises not_found."""
        request = self._request(rpc.GetAskRequest, ask_id=ask_id, session_id=session, turn_id=turn)
        return (await self._call(self._asks.GetAsk, request)).ask

    async def list_page(
        self, *, session: str = "", turn: str = "", statuses: Sequence[str] = (), limit: int = 0, cursor: str = ""
    ) -> rpc.ListAsksResponse:
        """One page of asks in creation order: `asks`, and `next_cursor` for the next page or "".

        `limit` is 1 to 100, 0 means 50; a page may end earlier. `statuses` are words such as "pending"; none: all.
        Raises invalid_arguments.
        """
        request = self._request(
            rpc.ListAsksRequest,
            session_id=session,
            turn_id=turn,
            statuses=content.statuses(statuses),
            limit=limit,
            cursor=cursor,
        )
        return await self._call(self._asks.ListAsks, request)

    async def list(
        self, *, session: str = "", turn: str = "", statuses: Sequence[str] = (), limit: int | None = None
    ) -> AsyncGenerator[pb.AskState]:
        """Asks in creation order, at most `limit` (None: all), read page by page while it is iterated. None is skipped
        or repeated while others are created and resolved. Raises invalid_arguments."""
        cursor, left = "", limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self.list_page(session=session, turn=turn, statuses=statuses, limit=size, cursor=cursor)
            for ask in page.asks:
                yield ask
            if not (cursor := page.next_cursor):
                return
            left = None if left is None else left - len(page.asks)

    async def answer(
        self,
        ask_id: str,
        answers: SubmissionLike | Sequence[SubmissionLike],
        *,
        answer_id: str = "",
        session: str = "",
        turn: str = "",
    ) -> pb.AskState:
        """Answer an ask with one submission for each question; returns the receipt: the ask without its questions.

        A submission is JSON data, a dataclass or a message. Without an `answer_id` one is made, so that retries are
        safe. Raises answer_invalid, ask_already_resolved (its metadata name the winner), answer_id_conflict, not_found.
        """
        request = self._request(
            rpc.AnswerAskRequest,
            session_id=session,
            turn_id=turn,
            ask_id=ask_id,
            answer_id=answer_id or new_id(),
            answers=content.submissions(answers),
        )
        return (await self._call(self._asks.AnswerAsk, request)).ask

    async def reject(self, ask_id: str, reason: str = "") -> pb.AskState:
        """Refuse an ask for good. Raises not_found, ask_already_resolved (its metadata name the winner)."""
        request = self._request(rpc.RejectAskRequest, ask_id=ask_id, reason=reason)
        try:
            return (await self._call(self._asks.RejectAsk, request)).ask
        except RequestError as failure:
            return await self._won_before(failure, ask_id, "rejected")

    async def cancel(self, ask_id: str) -> pb.AskState:
        """Take an ask back. Raises not_found, ask_already_resolved (its metadata name the winner)."""
        request = self._request(rpc.CancelAskRequest, ask_id=ask_id)
        try:
            return (await self._call(self._asks.CancelAsk, request)).ask
        except RequestError as failure:
            return await self._won_before(failure, ask_id, "cancelled")

    async def _won_before(self, failure: RequestError, ask_id: str, status: str) -> pb.AskState:
        """The ask, where an earlier attempt of this very call resolved it and only its reply was lost."""
        tried = failure.attempts > 1 and failure.code == Code.ASK_ALREADY_RESOLVED
        if not tried or failure.metadata.get("status") != status:
            raise failure
        if failure.metadata.get("resolved_by") != (await self.who_am_i()).principal:
            raise failure
        return await self.get(ask_id)

    async def consult(
        self,
        ask_id: str,
        *,
        provider: str,
        model: str,
        note: str = "",
        question_index: int | None = None,
        system: str = "",
        timeout: float = CONSULT_TIMEOUT,
    ) -> rpc.ConsultAskResponse:
        """Ask another model how a pending ask might be answered; without `question_index` about all its questions
        (CONTRACT section 8). `submissions` of the response can be given to `answer` as they are. At most `timeout`
        seconds. Raises provider_unknown, rate_limited, model_output_invalid, provider_unavailable and the like."""
        request = self._request(
            rpc.ConsultAskRequest,
            ask_id=ask_id,
            provider_id=provider,
            model_id=model,
            note=note,
            question_index=question_index,
            system=system,
        )
        return await self._call(self._asks.ConsultAsk, request, timeout=timeout)

    def watch(
        self, *, session: str = "", turn: str = "", statuses: Sequence[str] = (), after: int | None = None
    ) -> AsyncGenerator[WatchItem]:
        """Every event once and in order, without end: first what is pending, or with `after` everything after that
        revision, then an item with `synced`, then what happens.

        Reconnects and resumes by itself while the server is unavailable; the first time for `patience` seconds only.
        Raises invalid_arguments (also for a revision from the future), unauthenticated, permission_denied.
        """
        request = self._request(
            rpc.WatchAsksRequest,
            session_id=session,
            turn_id=turn,
            statuses=content.statuses(statuses),
            after_revision=after,
        )
        return Watch(self._connection, self._asks, request, self.get).items()

    async def validate(self, question: QuestionLike) -> None:
        """Check a question as asking it alone would: here, and then by the server. Raises QuestionError or
        RequestError with invalid_arguments, content_kind_unsupported or content_limit_exceeded."""
        await self._call(self._asks.ValidateQuestion, rpc.ValidateQuestionRequest(question=content.question(question)))

    def turn(self, session: str, turn: str = "") -> AsyncTurn:
        """A turn of a session, for `async with`: what it asks it waits for, and the turn ends with the block. Without
        an id one is made."""
        return AsyncTurn(self, session, turn or new_id())

    async def open_session(self, session: str, *, parent: str = "") -> None:
        """Declare a session, which is needed only for one that works for another, its `parent`: such a session cannot
        ask. Raises invalid_arguments where it was used or opened otherwise before."""
        await self._call(
            self._sessions.OpenSession,
            self._request(sessions.OpenSessionRequest, session_id=session, parent_session_id=parent),
        )

    async def end_session(self, session: str) -> None:
        """Refuse further asks in a session and cancel its pending ones. Ending it again changes nothing."""
        await self._call(self._sessions.EndSession, self._request(sessions.EndSessionRequest, session_id=session))

    async def end_turn(self, session: str, turn: str, outcome: str) -> sessions.EndTurnResponse:
        """Refuse further asks in a turn and cancel its pending ones; `outcome` is completed, interrupted, cancelled or
        failed. Returns the `outcome` that holds: the first one given, or failed where asks were pending when it was to
        be completed (CONTRACT section 4); of these the first `unjoined_ask_ids` and the `unjoined_count`."""
        request = self._request(
            sessions.EndTurnRequest, session_id=session, turn_id=turn, outcome=content.outcome(outcome)
        )
        return await self._call(self._sessions.EndTurn, request)

    async def who_am_i(self) -> keys.WhoAmIResponse:
        """The principal of this client's credential, `user:ID` or `key:ID`, and its grants. Raises unauthenticated."""
        return await self._call(self._keys.WhoAmI, keys.WhoAmIRequest())

    async def create_key(
        self, name: str, grants: Sequence[keys.Grant], *, expires_in: Span | None = None
    ) -> keys.CreateKeyResponse:
        """Make an API key: `key`, and its `secret`, which is never shown again. `expires_in` is in seconds. Tried once
        only, since a repeated call would make a second key. Raises permission_denied, invalid_arguments."""
        with refusing():
            request = keys.CreateKeyRequest(name=name, grants=grants, expires_in=content.span(expires_in))
        return await self._call(self._keys.CreateKey, request, patience=0)

    async def list_keys(self) -> Sequence[keys.ApiKey]:
        """The keys that the caller manages, revoked ones included, oldest first. Raises permission_denied."""
        return (await self._call(self._keys.ListKeys, keys.ListKeysRequest())).keys

    async def revoke_key(self, key_id: str) -> keys.ApiKey:
        """End a key for good. Raises not_found, permission_denied."""
        with refusing():
            request = keys.RevokeKeyRequest(key_id=key_id)
        return (await self._call(self._keys.RevokeKey, request)).key

    async def grant_role(self, principal: str, grant: keys.Grant) -> None:
        """Give a principal, `user:ID` or `key:ID`, a grant. Raises invalid_arguments, permission_denied, not_found."""
        with refusing():
            request = keys.GrantRoleRequest(principal=principal, grant=grant)
        await self._call(self._keys.GrantRole, request)

    async def revoke_role(self, principal: str, grant: keys.Grant) -> None:
        """Take a grant from a principal. Raises invalid_arguments, permission_denied."""
        with refusing():
            request = keys.RevokeRoleRequest(principal=principal, grant=grant)
        await self._call(self._keys.RevokeRole, request)

    async def list_grants(self, principal: str) -> Sequence[keys.Grant]:
        """A principal's grants, as far as the caller administers them. Raises invalid_arguments, permission_denied."""
        with refusing():
            request = keys.ListGrantsRequest(principal=principal)
        return (await self._call(self._keys.ListGrants, request)).grants
