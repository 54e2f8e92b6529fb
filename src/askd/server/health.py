"""The health service: serving only while the database answers, not serving while draining."""

import asyncio
import logging
import random

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from askd.store.database import Database
from askd.store.probes import probe, probe_by_writing
from askd.store.writer import Clock, Writer, describe

log = logging.getLogger(__name__)

#: Seconds between looks at the database.
PERIOD = 1.0


class Health:
    """Looks at the database and says what it sees to gRPC's health service."""

    def __init__(self, database: Database, writer: Writer, clock: Clock, services: list[str]) -> None:
        # The stock servicer starts as serving, before anything is ready.
        self.servicer = health_aio.HealthServicer()
        self._database = database
        self._writer = writer
        self._clock = clock
        self._services = ["", *services]
        self._serving: bool | None = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.run_once()
            await asyncio.sleep(PERIOD * random.uniform(0.8, 1.2))  # noqa: S311  # many servers share a database

    async def run_once(self) -> None:
        """Look once, by writing where writes failed: nothing less shows that a full disk has room again."""
        now = self._clock()
        try:
            if self._writer.failing:
                await self._database.write(lambda connection: probe_by_writing(connection, now))
                self._writer.failing = False
            else:
                await self._database.write(probe)
        except Exception as error:  # whatever it is, the database does not answer
            await self.say(serving=False, reason=describe(error))
        else:
            await self.say(serving=True)

    async def say(self, *, serving: bool, reason: str = "") -> None:
        """Set the status of every service."""
        if serving is self._serving:
            return
        if not serving and self._serving:
            log.error("not serving: %s", reason)
        elif serving:
            log.info("serving")
        self._serving = serving
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            await self.servicer.set(service, status)

    async def drain(self) -> None:
        """Say not serving from now on, whatever the database does."""
        await self.servicer.enter_graceful_shutdown()
