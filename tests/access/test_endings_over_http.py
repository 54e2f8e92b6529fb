"""What is open over HTTP ends soon after its caller may look no longer (CONTRACT section 5)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.access.issuer import AUDIENCE, ISSUER, Issuer
from tests.access.managing import give, key_for, take
from tests.clients import grant
from tests.conditions import eventually
from tests.gateway.places import asks, bearer, calling, gateway_to, path
from tests.gateway.streams import listening
from tests.lifecycle.times import SECOND, Clock
from tests.servers import Served, served

#: Seconds that what is open may outlast its caller's right to it.
PROMPTLY = 5.0
VIEWER = grant("viewer", "w")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A server whose clock a test sets, and a gateway in front of it."""

    server: Served
    http: httpx.AsyncClient
    clock: Clock
    issuer: Issuer

    async def opened(self) -> None:
        """Return once the wait and both streams have reached the server."""
        under_way = self.server.server.interceptor.under_way
        await eventually(lambda: (under_way["wait"], under_way["watch"]) == (1, 2))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    issuer, jwks, clock = Issuer(), tmp_path / "jwks.json", Clock()
    jwks.write_text(json.dumps(issuer.key_set()))
    users = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(jwks), "algorithms": ["ES256"]}
    async with (
        served(tmp_path / "data", clock, users=users) as server,
        gateway_to(server.address) as gateway,
        calling(gateway) as http,
    ):
        yield Scene(server=server, http=http, clock=clock, issuer=issuer)


# --- ways to lose the right to look: each gives a credential, and what takes its right away ---

Right = tuple[str, Callable[[], Awaitable[None]]]


async def _revoked_key(scene: Scene) -> Right:
    made = await scene.server.admin.create_key(VIEWER)

    async def revoke() -> None:
        await scene.server.admin.revoke_key(made.key.id)

    return made.secret, revoke


async def _expired_key(scene: Scene) -> Right:
    async def pass_by() -> None:
        scene.clock.now += 600 * SECOND

    return (await key_for(scene.server.admin, 600, VIEWER)).secret, pass_by


async def _expired_token(scene: Scene) -> Right:
    # Verified by the time that it really is.
    await give(scene.server.admin, "user:ada", VIEWER)
    end = int(time.time()) + 4

    async def pass_by() -> None:
        scene.clock.now = end * SECOND
        await eventually(lambda: time.time() >= end)

    return scene.issuer.token(exp=end), pass_by


async def _key_without_grant(scene: Scene) -> Right:
    made = await scene.server.admin.create_key(VIEWER)
    return made.secret, _taking(scene, f"key:{made.key.id}")


async def _user_without_grant(scene: Scene) -> Right:
    await give(scene.server.admin, "user:ada", VIEWER)
    return scene.issuer.token(), _taking(scene, "user:ada")


def _taking(scene: Scene, principal: str) -> Callable[[], Awaitable[None]]:
    return lambda: take(scene.server.admin, principal, VIEWER)


@pytest.mark.parametrize(
    ("lose", "status", "code"),
    [
        (_revoked_key, 401, "unauthenticated"),
        (_expired_key, 401, "unauthenticated"),
        (_expired_token, 401, "unauthenticated"),
        (_key_without_grant, 403, "permission_denied"),
        (_user_without_grant, 403, "permission_denied"),
    ],
)
async def test_streams_and_waits_end_within_five_seconds(
    scene: Scene, lose: Callable[[Scene], Awaitable[Right]], status: int, code: str
) -> None:
    ask = await scene.server.admin.ask(turn_id="t")
    credential, end = await lose(scene)
    async with AsyncExitStack() as stack:
        scene.http.headers.update(bearer(credential))
        events = path("api", "v1", "workspaces", "w", "questions", "events")
        in_b = await stack.enter_async_context(listening(scene.http, events))
        in_opencode = await stack.enter_async_context(listening(scene.http, "/event", workspace="w"))
        await in_b.until("synced")
        await in_opencode.event()
        waiting = asyncio.create_task(scene.http.get(asks(ask.id), params={"wait": "60"}))
        await scene.opened()

        await end()
        begin = time.monotonic()
        ends = (await in_b.event(), await in_opencode.event())
        waited = await waiting
        assert time.monotonic() - begin < PROMPTLY
        for stream in (in_b, in_opencode):
            await stream.ends()
    assert ends[0].data == {"type": "end", "code": code, "message": ends[0].data["message"]}
    assert (ends[1].data["type"], ends[1].data["properties"]["code"]) == ("global.disposed", code)
    assert (waited.status_code, waited.json()["error"]["code"]) == (status, code)
    refused = await scene.http.get(events)
    assert (refused.status_code, list(refused.json()["errors"][0])) == (status, [code])


async def test_others_go_on(scene: Scene) -> None:
    admin = scene.server.admin
    made = await admin.create_key(VIEWER)
    kept = await admin.create_key(VIEWER)
    scene.http.headers.update(bearer(kept.secret))
    async with listening(scene.http, "/event") as going_on:
        scene.http.headers.update(bearer(made.secret))
        async with listening(scene.http, "/event") as ending:
            await ending.event()
            await admin.revoke_key(made.key.id)
            assert (await ending.event()).data["type"] == "global.disposed"
        await going_on.event()
        asked = await admin.ask()
        assert (await going_on.event()).data["properties"]["id"] == asked.id
