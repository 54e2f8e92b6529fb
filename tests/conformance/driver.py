"""The driver of the Python client: what README.md demands, over askd.AsyncClient."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from askd import AsyncClient, RequestError, WatchItem
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.v1 import session_service_pb2 as sessions

Json = dict[str, Any]


class Driver:
    """The clients and the watches by their names."""

    def __init__(self) -> None:
        self._clients: dict[str, AsyncClient] = {}
        self._watches: dict[tuple[str, str], AsyncGenerator[WatchItem]] = {}

    async def run(self, name: str, do: str, args: Json) -> Json:
        """Run one command; what it returns is `ok`."""
        match do:
            case "connect":
                self._clients[name] = await AsyncClient(args.pop("address"), args.pop("key"), **args).__aenter__()
            case "close":
                await self._clients.pop(name).__aexit__(None, None, None)
            case "watch.start":
                self._watches[name, args["watch"]] = _watch(self._clients[name], args["request"])
            case "watch.next":
                return await _next(self._watches[name, args["watch"]])
            case "watch.stop":
                await self._watches.pop((name, args["watch"])).aclose()
            case _:
                return await _CALLS[do](self._clients[name], args)
        return {}


def _watch(client: AsyncClient, args: Json) -> AsyncGenerator[WatchItem]:
    request = ParseDict(args, rpc.WatchAsksRequest())
    after = request.after_revision if request.HasField("after_revision") else None
    return client.watch(
        session=request.session_id, turn=request.turn_id, statuses=_statuses(request.statuses), after=after
    )


async def _next(watch: AsyncGenerator[WatchItem]) -> Json:
    async for item in watch:
        if item.event is not None:
            return {"event": MessageToDict(item.event)}
        if item.synced:
            return {"synced": True, "revision": str(item.revision)}
    raise AssertionError("a watch has no end")


async def _ask(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.AskRequest())
    ask = await client.ask(
        list(request.questions),
        session=request.session_id,
        turn=request.turn_id,
        request_id=request.request_id,
        tool=request.tool if request.HasField("tool") else None,
        expires_in=request.expires_in.ToTimedelta() if request.HasField("expires_in") else None,
    )
    return MessageToDict(ask)


async def _wait(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.WaitAskRequest())
    timeout = request.timeout.ToTimedelta().total_seconds() if request.HasField("timeout") else None
    return MessageToDict(await client.wait(request.ask_id, timeout=timeout))


async def _get(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.GetAskRequest())
    return MessageToDict(await client.get(request.ask_id, session=request.session_id, turn=request.turn_id))


async def _list(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.ListAsksRequest())
    page = await client.list_page(
        session=request.session_id,
        turn=request.turn_id,
        statuses=_statuses(request.statuses),
        limit=request.limit,
        cursor=request.cursor,
    )
    return MessageToDict(page)


async def _list_all(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.ListAsksRequest())
    asks = client.list(
        session=request.session_id,
        turn=request.turn_id,
        statuses=_statuses(request.statuses),
        limit=request.limit or None,
    )
    return {"asks": [MessageToDict(ask) async for ask in asks]}


def _statuses(numbers: Any) -> list[str]:
    return [pb.AskStatus.Name(number).removeprefix("ASK_STATUS_").lower() for number in numbers]


async def _answer(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.AnswerAskRequest())
    receipt = await client.answer(
        request.ask_id,
        list(request.answers),
        answer_id=request.answer_id,
        session=request.session_id,
        turn=request.turn_id,
    )
    return MessageToDict(receipt)


async def _reject(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.RejectAskRequest())
    return MessageToDict(await client.reject(request.ask_id, request.reason))


async def _cancel(client: AsyncClient, args: Json) -> Json:
    return MessageToDict(await client.cancel(ParseDict(args, rpc.CancelAskRequest()).ask_id))


async def _consult(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, rpc.ConsultAskRequest())
    advice = await client.consult(
        request.ask_id,
        provider=request.provider_id,
        model=request.model_id,
        note=request.note,
        question_index=request.question_index if request.HasField("question_index") else None,
        system=request.system,
    )
    return MessageToDict(advice)


async def _validate(client: AsyncClient, args: Json) -> Json:
    await client.validate(ParseDict(args, rpc.ValidateQuestionRequest()).question)
    return {}


async def _open_session(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, sessions.OpenSessionRequest())
    await client.open_session(request.session_id, parent=request.parent_session_id)
    return {}


async def _end_turn(client: AsyncClient, args: Json) -> Json:
    request = ParseDict(args, sessions.EndTurnRequest())
    outcome = sessions.TurnOutcome.Name(request.outcome).removeprefix("TURN_OUTCOME_").lower()
    return MessageToDict(await client.end_turn(request.session_id, request.turn_id, outcome))


async def _end_session(client: AsyncClient, args: Json) -> Json:
    await client.end_session(ParseDict(args, sessions.EndSessionRequest()).session_id)
    return {}


async def _who_am_i(client: AsyncClient, _: Json) -> Json:
    return MessageToDict(await client.who_am_i())


_CALLS: dict[str, Callable[[AsyncClient, Json], Awaitable[Json]]] = {
    "ask": _ask,
    "wait": _wait,
    "get": _get,
    "list": _list,
    "listAll": _list_all,
    "answer": _answer,
    "reject": _reject,
    "cancel": _cancel,
    "consult": _consult,
    "validate": _validate,
    "openSession": _open_session,
    "endTurn": _end_turn,
    "endSession": _end_session,
    "whoAmI": _who_am_i,
}


async def _report(driver: Driver, command: Json) -> None:
    result: Json = {"id": command["id"]}
    try:
        result["ok"] = await driver.run(command["client"], command["do"], command.get("args", {}))
    except RequestError as error:
        result["error"] = {"code": error.code, "field": error.field, "metadata": error.metadata}
    except Exception as error:
        result["error"] = {"code": "driver_failed", "message": repr(error)}
    print(json.dumps(result), flush=True)


async def main() -> None:
    """Run every command as it comes, until standard input ends."""
    driver = Driver()
    async with asyncio.TaskGroup() as tasks:
        while line := await asyncio.to_thread(sys.stdin.readline):
            tasks.create_task(_report(driver, json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main())
