"""Those who answer what a test's program asks."""

from contextlib import aclosing

from askd.client import AsyncClient
from askd.v1 import ask_pb2 as pb


async def pending(client: AsyncClient, count: int = 1) -> list[pb.AskState]:
    """The first asks that are pending in a client's workspace, as soon as there are so many."""
    asks: list[pb.AskState] = []
    async with aclosing(client.watch()) as items:
        async for item in items:
            if item.event is not None:
                asks.append(item.event.ask)
            if len(asks) == count:
                break
    return asks


async def answer_next(client: AsyncClient, submission: object) -> str:
    """Answer what is pending; the ask's id."""
    [ask] = await pending(client)
    await client.answer(ask.id, submission)  # type: ignore[arg-type]  # tests give what they like
    return ask.id
