"""The server: how it is put together, started and drained (CONTRACT section 10)."""

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from sqlalchemy.exc import SQLAlchemyError

from askd.advisors.advisor import open_advisors
from askd.advisors.rates import MovingRates
from askd.config import Address, Settings, Tls
from askd.domain.asks import AskEvent
from askd.server import convert
from askd.server.ask_servicer import AskServicer
from askd.server.audit import Audit
from askd.server.health import Health
from askd.server.interceptor import Interceptor
from askd.server.key_servicer import KeyServicer
from askd.server.session_servicer import SessionServicer
from askd.server.throttle import Throttle
from askd.service.asks import Asks
from askd.service.authority import Authority, Tokens
from askd.service.consult import Consulting
from askd.service.follower import Follower
from askd.service.hub import Hub
from askd.service.keys import Keys, insert_first_key
from askd.service.sessions import Sessions
from askd.service.streams import Streams
from askd.service.sweeper import Sweeper
from askd.store.cache import AskCache
from askd.store.database import Database, StartError, open_database
from askd.store.reader import Reader
from askd.store.writer import Clock, Writer, describe
from askd.v1 import ask_service_pb2_grpc, key_service_pb2_grpc, session_service_pb2_grpc

log = logging.getLogger(__name__)

SERVICES = ["askd.v1.AskService", "askd.v1.SessionService", "askd.v1.KeyService"]

#: Seconds that calls under way have to finish once the server drains.
GRACE = 7.0
#: Seconds for which a draining server tells new calls so.
TURN_AWAY = 0.3
#: Seconds for the last answers to leave, and for health watchers to be cut off.
FLUSH = 0.2

#: Clients may ping as often as every 10 s, also while no call is under way; the server pings after 30 s of silence, so
#: that a client that vanished is noticed. 4 MiB is what clients receive by default, too.
OPTIONS: list[tuple[str, Any]] = [
    ("grpc.so_reuseport", 0),
    # Else calls beyond a thousand that came at once would be cancelled: our own bounds refuse in an orderly way.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 100_000),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", 4 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
]


def utc_microseconds() -> int:
    """The clock: UTC microseconds since 1970."""
    return time.time_ns() // 1000


class Server:
    """One askd server on one event loop. `address` is where it listens once start() has returned."""

    address: Address

    def __init__(self, settings: Settings, database: Database, clock: Clock = utc_microseconds) -> None:
        self._listen = settings.grpc.listen
        self._tls = settings.tls
        self._has_gateway = settings.http.listen is not None
        self._database = database
        self.hub = Hub(convert.event_to_bytes)
        cache = None if database.hints else AskCache()  # other servers would change what it holds
        self.writer = Writer(database, clock, self._publish, cache)
        self.reader = Reader(database, cache)
        self.follower = Follower(self.reader, self.hub)
        self.streams = Streams()
        self.authority = Authority(self.reader, self.streams, clock, time.monotonic, _tokens(settings))
        retention = int(settings.retention.payload * convert.MICROSECONDS)
        self.sweeper = Sweeper(database, self.writer, self.reader, self.hub, clock, retention)
        self._audit = _open_audit(settings)
        self._grpc = grpc.aio.server(options=OPTIONS)
        self.interceptor = Interceptor(self._grpc, self.authority, Throttle(time.monotonic), self._audit)
        self.health = Health(database, self.writer, clock, SERVICES)
        self._loops: list[asyncio.Task[None]] = []
        self._listening: asyncio.Task[None] | None = None
        #: Where a gateway inside this process calls, past TLS; only this user can reach it. None where there is none.
        self.socket: Path | None = None
        asks = Asks(self.writer, self.reader, self.hub, self.streams, settings.watch.heartbeat)
        sessions = Sessions(self.writer, self.reader, self.sweeper)
        keys = Keys(database, self.authority, clock)
        rate = settings.consult.rate
        advisors = open_advisors(settings.consult)
        self.consulting = Consulting(asks, self.streams, advisors, MovingRates(rate.amount, rate.seconds))
        wrapping = cast("grpc.aio.Server", self.interceptor)
        ask_service_pb2_grpc.add_AskServiceServicer_to_server(AskServicer(asks, self.consulting), wrapping)
        session_service_pb2_grpc.add_SessionServiceServicer_to_server(SessionServicer(sessions), wrapping)
        key_service_pb2_grpc.add_KeyServiceServicer_to_server(KeyServicer(keys), wrapping)
        health_pb2_grpc.add_HealthServicer_to_server(self.health.servicer, self._grpc)
        reflection.enable_server_reflection([*SERVICES, "grpc.health.v1.Health", reflection.SERVICE_NAME], self._grpc)

    async def start(self) -> None:
        """Listen. Raises StartError."""
        await self.health.say(serving=False)
        self.address = Address(self._listen.host, self._add_port(str(self._listen), _credentials(self._tls)))
        if self._has_gateway:
            self.socket = Path(tempfile.mkdtemp(prefix="askd-")) / "grpc.sock"
            self._add_port(f"unix:{self.socket}", None)
        await self.health.run_once()
        await self._grpc.start()
        for loop in (self.health.run, self.sweeper.run, self.authority.run, self.follower.run):
            self._loops.append(asyncio.create_task(loop(), name=loop.__qualname__))
        if hints := self._database.hints:
            listen = hints.run(self.follower.hear, self.follower.poll_soon)
            self._listening = asyncio.create_task(listen, name="listener")

    def _publish(self, events: Sequence[AskEvent]) -> None:
        self.hub.publish(events)
        if self._database.hints:
            self._database.hints.announce(events)

    def _add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        try:
            if credentials is None:
                return self._grpc.add_insecure_port(address)
            return self._grpc.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise StartError(f"cannot listen on {address}") from error

    async def drain(self) -> None:
        """Take no new work, end streams and waits, finish what was accepted, and let everything go. The plan:

        1. Health says so, and whoever balances load looks elsewhere.
        2. Watches, waits and consultations end with unavailable; new calls are refused so, for long enough that whoever
           calls has turned away: what gRPC holds when it stops it cancels without a word.
        3. Calls under way finish, and with them every accepted write.
        4. Streams of others (health, reflection) and calls that hang are cut off.
        """
        for loop in self._loops:
            loop.cancel()
        await self.health.drain()
        self.streams.close()
        self.interceptor.drain()
        turned_away = asyncio.create_task(asyncio.sleep(TURN_AWAY))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.interceptor.idle.wait(), GRACE)
        await turned_away
        await self.consulting.close()
        await self.sweeper.close()
        await self._grpc.stop(FLUSH)
        await self.writer.close()
        if self._listening:  # until now it told the other servers of what was written
            self._listening.cancel()
        await self.follower.close()
        await self.reader.close()
        await self._database.close()
        if self._audit is not None:
            self._audit.close()
        if self.socket is not None:
            shutil.rmtree(self.socket.parent, ignore_errors=True)


def _credentials(tls: Tls) -> grpc.ServerCredentials | None:
    """What the listener proves and, with a client authority, demands. Raises StartError."""
    if tls.cert is None or tls.key is None:
        return None
    try:
        chain = (tls.key.read_bytes(), tls.cert.read_bytes())
        authority = tls.client_ca.read_bytes() if tls.client_ca else None
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}") from error
    return grpc.ssl_server_credentials([chain], authority, require_client_auth=authority is not None)


def _tokens(settings: Settings) -> Tokens | None:
    if settings.users is None:
        return None
    from askd.service.tokens import IssuerKeys, UserTokens

    users = settings.users
    return UserTokens(users.issuer, users.audience, users.algorithms, IssuerKeys(users.jwks, time.monotonic))


def _open_audit(settings: Settings) -> Audit | None:
    if settings.audit.log == "off":
        return None
    try:
        return Audit(settings.audit.log)
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}") from error


async def open_store(settings: Settings, clock: Callable[[], int] = utc_microseconds) -> Database:
    """Open the database, with a first key where it has none. Raises StartError."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = open_database(settings.database_url, listen_url=settings.database.listen_url)
        try:
            await database.check()
            first = await database.write(lambda connection: insert_first_key(connection, settings.admin_key, clock()))
        except BaseException:
            await database.close()
            raise
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}") from error
    except SQLAlchemyError as error:
        raise StartError(f"cannot use the database: {describe(error)}") from error
    if first:
        log.info("the first key, admin everywhere, is in %s", settings.admin_key)
    return database
