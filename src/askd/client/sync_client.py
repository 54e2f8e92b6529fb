"""The client for programs that do not use asyncio: the other one, on an event loop in the background."""

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from askd.client.async_client import TIMEOUT, AsyncClient
from askd.client.content import QuestionLike, Span, ToolLike
from askd.client.loop_thread import LoopThread
from askd.client.outcomes import Answered
from askd.client.turns import AsyncTurn

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _blocking(
    method: Callable[Concatenate[AsyncClient, _P], Awaitable[_T]],
) -> Callable[Concatenate["Client", _P], _T]:
    """The method of the same arguments that returns when it is done."""

    @functools.wraps(method)
    def call(self: "Client", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._thread.run(method, self._client, *args, **kwargs)

    return call


def _iterating(
    method: Callable[Concatenate[AsyncClient, _P], AsyncGenerator[_T]],
) -> Callable[Concatenate["Client", _P], Generator[_T]]:
    """The method of the same arguments that returns a plain iterator."""

    @functools.wraps(method)
    def call(self: "Client", /, *args: _P.args, **kwargs: _P.kwargs) -> Generator[_T]:
        self._thread.require_started()
        return self._thread.iterate(method(self._client, *args, **kwargs))

    return call


class Client:
    """AsyncClient for programs that do not use asyncio: the same arguments, methods, results and errors.

        with Client("127.0.0.1:50051", key) as client, client.turn("deploy") as turn:
            port = turn.ask("Which port?").answer

    `list` and `watch` are plain iterators, which may be left or closed at any time. Several threads may use one client.
    A call that is interrupted, as by Ctrl-C, is cancelled. Inside a coroutine a call blocks the whole event loop:
    AsyncClient is for there.
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
        """See AsyncClient."""
        self._client = AsyncClient(
            address,
            key,
            workspace=workspace,
            timeout=timeout,
            patience=patience,
            credentials=credentials,
            channel_options=channel_options,
        )
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._thread.run(self._client.__aenter__)
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.run(self._client.__aexit__)
        finally:
            self._thread.stop()

    @property
    def address(self) -> str:
        """The server's."""
        return self._client.address

    @property
    def workspace(self) -> str:
        """The workspace that every call names."""
        return self._client.workspace

    def turn(self, session: str, turn: str = "") -> "Turn":
        """A turn of a session, for `with`; see AsyncClient.turn."""
        return Turn(self._thread, self._client.turn(session, turn))

    ask = _blocking(AsyncClient.ask)
    wait = _blocking(AsyncClient.wait)
    get = _blocking(AsyncClient.get)
    list_page = _blocking(AsyncClient.list_page)
    list = _iterating(AsyncClient.list)
    answer = _blocking(AsyncClient.answer)
    reject = _blocking(AsyncClient.reject)
    cancel = _blocking(AsyncClient.cancel)
    consult = _blocking(AsyncClient.consult)
    watch = _iterating(AsyncClient.watch)
    validate = _blocking(AsyncClient.validate)
    open_session = _blocking(AsyncClient.open_session)
    end_session = _blocking(AsyncClient.end_session)
    end_turn = _blocking(AsyncClient.end_turn)
    who_am_i = _blocking(AsyncClient.who_am_i)
    create_key = _blocking(AsyncClient.create_key)
    list_keys = _blocking(AsyncClient.list_keys)
    revoke_key = _blocking(AsyncClient.revoke_key)
    grant_role = _blocking(AsyncClient.grant_role)
    revoke_role = _blocking(AsyncClient.revoke_role)
    list_grants = _blocking(AsyncClient.list_grants)


class Turn:
    """AsyncTurn for programs that do not use asyncio; made by Client.turn() and used with `with`."""

    def __init__(self, thread: LoopThread, turn: AsyncTurn) -> None:
        self._thread = thread
        self._turn = turn

    def __enter__(self) -> Self:
        self._thread.run(self._turn.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.run(self._turn.__aexit__, kind, error, traceback)

    @property
    def session(self) -> str:
        """The session of the turn."""
        return self._turn.session

    @property
    def id(self) -> str:
        """The id of the turn."""
        return self._turn.id

    @property
    def outcome(self) -> str | None:
        """See AsyncTurn."""
        return self._turn.outcome

    def ask(
        self,
        questions: QuestionLike | Sequence[QuestionLike],
        *,
        request_id: str = "",
        tool: ToolLike | None = None,
        expires_in: Span | None = None,
    ) -> Answered:
        """Ask and wait for the answer; see AsyncTurn.ask. An ask() that another thread still waits in when the block
        ends is left unjoined."""
        return self._thread.run(self._turn.ask, questions, request_id=request_id, tool=tool, expires_in=expires_in)
