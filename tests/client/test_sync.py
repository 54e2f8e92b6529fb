"""The client without asyncio, with a real server."""

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.client.restartable import RestartableServer
from tests.clients import LIMIT

from askd.client import AskCancelledError, AsyncClient, AsyncTurn, Client, RequestError, Turn, UnjoinedError
from askd.client.loop_thread import LoopThread
from askd.v1 import ask_pb2 as pb


@pytest.fixture
def blocking(shared_server: RestartableServer, workspace: str) -> Iterator[Client]:
    """An admin's client in the test's workspace."""
    with Client(shared_server.address, shared_server.key, workspace=workspace) as opened:
        yield opened


def next_pending(client: Client) -> pb.AskState:
    """The first ask that is pending, as soon as one is."""
    with closing(client.watch()) as items:
        return next(item.event.ask for item in items if item.event is not None)


@pytest.mark.parametrize(("own", "other"), [(Client, AsyncClient), (Turn, AsyncTurn)])
def test_it_has_the_methods_of_the_other_client(own: type, other: type) -> None:
    def public(kind: type) -> dict[str, object]:
        return {name: value for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}

    assert public(own).keys() == public(other).keys()
    for name, method in public(own).items():
        assert not inspect.iscoroutinefunction(method)
        theirs = inspect.signature(getattr(other, name))
        assert inspect.signature(getattr(own, name)).parameters.keys() == theirs.parameters.keys()
        assert inspect.getdoc(getattr(own, name))
    assert inspect.signature(Client.__init__).parameters == inspect.signature(AsyncClient.__init__).parameters


def test_an_ask_goes_from_asking_to_the_answer(blocking: Client) -> None:
    ask = blocking.ask("x", session="s", turn="t")
    assert blocking.wait(ask.id, timeout=0.01).status == pb.ASK_STATUS_PENDING
    blocking.answer(ask.id, "yes")
    assert blocking.wait(ask).answers[0].text == blocking.get(ask.id).answers[0].text == "yes"


def test_lists_and_watches_are_plain_iterators(blocking: Client) -> None:
    asks = [blocking.ask(f"{number}", session="s") for number in range(102)]
    assert list(blocking.list()) == asks
    assert next(blocking.list(limit=1)) == asks[0]
    watch = blocking.watch(after=100)
    assert [next(watch).revision for _ in range(3)] == [101, 102, 102]
    blocking.cancel(asks[0].id)
    assert next(item.event for item in watch if item.event).type == pb.ASK_EVENT_TYPE_CANCELLED


def test_an_iteration_that_is_left_is_no_hindrance(shared_server: RestartableServer, workspace: str) -> None:
    with Client(shared_server.address, shared_server.key, workspace=workspace) as client:
        left, never_begun = client.watch(), client.watch()
        assert next(left).synced
    del left, never_begun


def test_refusals_are_raised(blocking: Client) -> None:
    for call in (lambda: blocking.get("que_none"), lambda: next(blocking.watch(after=99))):
        with pytest.raises(RequestError):
            call()


def test_a_turn_asks_and_ends(blocking: Client) -> None:
    with ThreadPoolExecutor() as threads, blocking.turn("s", "t") as turn:
        answering = threads.submit(lambda: blocking.answer(next_pending(blocking).id, "yes"))
        answered = turn.ask("x")
        assert answering.result().status == pb.ASK_STATUS_ANSWERED
    assert (answered.answer, answered.answered_by.kind) == ("yes", "api_key")
    assert (turn.session, turn.id, turn.outcome) == ("s", "t", "completed")


def test_a_thread_that_still_waits_is_unjoined(blocking: Client) -> None:
    with ThreadPoolExecutor() as threads:
        with pytest.raises(UnjoinedError) as raised, blocking.turn("s") as turn:  # noqa: PT012  # its end takes its block
            asking = threads.submit(turn.ask, "x")
            ask = next_pending(blocking)
        assert (raised.value.ask_ids, turn.outcome) == ((ask.id,), "failed")
        with pytest.raises(AskCancelledError, match="turn_ended"):
            asking.result()


def test_a_block_that_raises_interrupts_its_turn(blocking: Client) -> None:
    with pytest.raises(ZeroDivisionError), blocking.turn("s") as turn:
        _ = 1 / 0
    assert turn.outcome == "interrupted"


def test_an_interrupted_call_withdraws_its_ask(blocking: Client) -> None:
    asks = []

    def interrupt() -> None:
        asks.append(next_pending(blocking))
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    with pytest.raises(KeyboardInterrupt), blocking.turn("s") as turn:
        turn.ask("x")
    person.join()
    assert turn.outcome == "interrupted"
    assert blocking.get(asks[0].id).cancel_reason in (pb.CANCEL_REASON_WITHDRAWN, pb.CANCEL_REASON_INTERRUPTED)


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    """A thread with an event loop."""
    opened = LoopThread()
    opened.start()
    yield opened
    opened.stop()


def test_an_interrupted_call_is_cancelled(thread: LoopThread) -> None:
    cancelled = threading.Event()

    async def call() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        thread.run(call)
    assert cancelled.wait(LIMIT)


def test_an_iteration_that_is_left_is_closed(thread: LoopThread) -> None:
    closed = threading.Event()

    async def count() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    assert list(thread.iterate(count())) == [1, 2]
    closed.clear()
    kept = count()  # so that it is not closed as garbage
    for number in thread.iterate(kept):
        assert number == 1
        break
    assert closed.wait(LIMIT)


def test_a_client_is_used_in_its_block() -> None:
    client = Client("127.0.0.1:1", workspace="w")
    assert (client.address, client.workspace) == ("127.0.0.1:1", "w")
    for _ in range(2):
        for call in (lambda: client.get("que_1"), client.watch, client.list):
            with pytest.raises(RuntimeError, match="not open"):
                call()
        with client:
            pass


def test_its_thread_ends_with_its_block() -> None:
    with Client("127.0.0.1:1"):
        assert "askd-client" in [thread.name for thread in threading.enumerate()]
    assert "askd-client" not in [thread.name for thread in threading.enumerate()]


def test_a_thread_that_waits_when_the_client_closes_is_told(shared_server: RestartableServer, workspace: str) -> None:
    with ThreadPoolExecutor() as threads:
        with Client(shared_server.address, shared_server.key, workspace=workspace) as client:
            ask = client.ask("x", session="s")
            waiting = threads.submit(client.wait, ask)
            threads.submit(client.get, ask.id).result()
        with pytest.raises((CancelledError, RuntimeError)):
            waiting.result()
