"""A configured provider of models, whose packages are imported when it is first consulted."""

import asyncio
import random
from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING

from askd.advisors.loop_thread import LoopThread
from askd.config import Consult, Provider
from askd.domain.advice import Consultation, ModelReply, provider_unavailable

if TYPE_CHECKING:
    from askd.advisors.connection import Connection
    from askd.advisors.failures import Failure

#: How often a call is made that fails for reasons that may pass.
ATTEMPTS = 3
#: Seconds before the second call, doubled before each further one; a provider that names a time is given that.
BACKOFF = 0.5

_NOT_INSTALLED = "consulting needs packages that are not installed: pip install 'askd[consult]'"


class ModelAdvisor:
    """Consults the models of one provider, in a thread of its own."""

    def __init__(self, provider_id: str, provider: Provider) -> None:
        self._id = provider_id
        self._provider = provider
        self._thread = LoopThread()
        self._opening: asyncio.Task[Connection] | None = None

    @property
    def models(self) -> Collection[str]:
        """The ids of the models that may be consulted."""
        return self._provider.models

    @property
    def timeout(self) -> float:
        """Seconds that a consultation may take."""
        return self._provider.timeout

    async def open(self) -> None:
        """Import the provider's packages, once. Raises AskdError (provider_unavailable) where they are missing."""
        await self._connection()

    async def _connection(self) -> "Connection":
        # In another thread, since importing takes seconds; shared, so that a caller who leaves does not stop it.
        if self._opening is None:
            self._opening = asyncio.create_task(asyncio.to_thread(_connect, self._id, self._provider))
        try:
            return await asyncio.shield(self._opening)
        except ImportError:
            self._opening = None
            raise provider_unavailable(_NOT_INSTALLED) from None

    async def ask(self, model: str, consultation: Consultation, deadline: float) -> ModelReply:
        """What a model says. Calls that fail for reasons that may pass are made again while there is time. Raises
        AskdError (provider_unavailable, model_output_invalid)."""
        connection = await self._connection()
        seconds = deadline - asyncio.get_running_loop().time()
        return await self._thread.run(_call(connection, model, consultation, seconds))

    async def close(self) -> None:
        """Let go of connections, and end the thread."""
        opening, self._opening = self._opening, None
        if opening is not None and opening.done() and not opening.cancelled() and opening.exception() is None:
            await self._thread.run(opening.result().close())
        await self._thread.close()


def open_advisors(consult: Consult) -> dict[str, ModelAdvisor]:
    """An advisor for each provider, by its id."""
    return {identifier: ModelAdvisor(identifier, provider) for identifier, provider in consult.providers.items()}


def _connect(provider_id: str, provider: Provider) -> "Connection":
    import_module("limits.strategies")  # for the rates, which do not wait for it then
    connect: Callable[[str, Provider], Connection] = import_module("askd.advisors.connection").connect
    return connect(provider_id, provider)


async def _call(connection: "Connection", model: str, consultation: Consultation, seconds: float) -> ModelReply:
    """Call until there is a reply, as often and as long as there may be calls."""
    deadline = asyncio.get_running_loop().time() + seconds
    for attempt in range(ATTEMPTS):
        answer = await connection.call(model, consultation)
        if isinstance(answer, ModelReply):
            return answer
        await _pause(answer, attempt, deadline)
    raise AssertionError("the last attempt returns or raises")


async def _pause(failure: "Failure", attempt: int, deadline: float) -> None:
    """Sleep before the next call, or raise the failure where there is to be none."""
    jitter = random.uniform(1, 1.25)  # noqa: S311  # so that callers do not come back together
    pause = jitter * (BACKOFF * 2**attempt if failure.retry_after is None else failure.retry_after)
    late = asyncio.get_running_loop().time() + pause >= deadline
    if not failure.passing or attempt + 1 == ATTEMPTS or late:
        raise failure.error
    await asyncio.sleep(pause)
