"""User tokens (CONTRACT section 9)."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.access.issuer import AUDIENCE, ISSUER, Issuer, published
from tests.access.managing import give
from tests.clients import Client, grant, refusal
from tests.servers import Served, served

from askd.service.tokens import LIFETIME, PAUSE, IssuerKeys


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def server(tmp_path: Path, issuer: Issuer) -> AsyncIterator[Served]:
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps(issuer.key_set()))
    users: Any = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(jwks), "algorithms": ["ES256"]}
    async with served(tmp_path / "data", users=users) as running:
        yield running


@pytest.fixture
async def ada(server: Served, issuer: Issuer) -> Client:
    await give(server.admin, "user:ada", grant("answerer", "w"))
    return server.admin.other(issuer.token())


async def test_the_subject_of_a_token_is_the_user_who_answers(server: Served, ada: Client) -> None:
    asked = await server.admin.ask()
    answered = await ada.answer(asked.id)
    assert answered.resolved_by_user_id == "ada"
    assert (await ada.who_am_i()).principal == "user:ada"
    refused = await refusal(server.admin.cancel(asked.id))
    assert refused.metadata["resolved_by"] == "user:ada"


async def test_a_user_without_grants_enters_no_workspace(server: Served, issuer: Issuer) -> None:
    stranger = server.admin.other(issuer.token("bob"))
    assert (await refusal(stranger.list_all())).reason == "permission_denied"
    assert list((await stranger.who_am_i()).grants) == []


def _unsigned(**claims: Any) -> str:
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 300} | claims
    return jwt.encode(said, "", algorithm="none")


def _forged(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": time.time() + 300}
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


def _of_another_issuer(issuer: Issuer) -> str:
    return Issuer().token(headers={"kid": issuer.newest})


def _symmetric(issuer: Issuer) -> str:
    """The public key as a shared secret, which anybody has."""
    secret = issuer.key_set()["keys"][0]["x"]
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 300}
    return jwt.encode(said, secret, algorithm="HS256", headers={"kid": issuer.newest})


BAD: dict[str, Callable[[Issuer], str]] = {
    "unsigned": lambda issuer: _unsigned(),
    "forged": _forged,
    "of another issuer's key": _of_another_issuer,
    "of another algorithm": _symmetric,
    "of another issuer": lambda issuer: issuer.token(iss="https://other.example"),
    "for another audience": lambda issuer: issuer.token(aud="other"),
    "expired": lambda issuer: issuer.token(exp=time.time() - 1),
    "not yet good": lambda issuer: issuer.token(nbf=time.time() + 60),
    "from the future": lambda issuer: issuer.token(iat=time.time() + 60),
    "for ever": lambda issuer: issuer.token(without="exp"),
    "of nobody": lambda issuer: issuer.token(without="sub"),
    "of an empty subject": lambda issuer: issuer.token(""),
    "of a subject too long": lambda issuer: issuer.token("x" * 252),
    "of a subject with U+0000": lambda issuer: issuer.token("a\0da"),
    "of a subject with a line end": lambda issuer: issuer.token("ada\n"),
    "of a subject with U+007F": lambda issuer: issuer.token("\x7fada"),
    "of a subject that is no text": lambda issuer: issuer.token("\ud800"),
    "of a number as subject": lambda issuer: issuer.token(sub=7),
    "of an unknown key": lambda issuer: issuer.token(headers={"kid": "unknown"}),
    "of no form": lambda issuer: "a.b.c",
    "of a number as key id": lambda issuer: issuer.token().replace(".", "x", 1),
}


@pytest.mark.parametrize("kind", sorted(BAD))
async def test_a_bad_token_is_refused(server: Served, issuer: Issuer, kind: str) -> None:
    await give(server.admin, "user:ada", grant("admin"))
    refused = await refusal(server.admin.other(BAD[kind](issuer)).who_am_i())
    assert refused.reason == "unauthenticated"
    assert await server.admin.other(issuer.token()).who_am_i()


async def test_without_a_configured_issuer_no_token_is_good(tmp_path: Path, issuer: Issuer) -> None:
    async with served(tmp_path / "plain") as plain:
        assert (await refusal(plain.admin.other(issuer.token()).who_am_i())).reason == "unauthenticated"


async def test_a_watch_ends_when_the_token_does(server: Served, issuer: Issuer) -> None:
    await give(server.admin, "user:ada", grant("viewer", "w"))
    client = server.admin.other(issuer.token(exp=time.time() + 1.5))
    async with client.watch() as watcher:
        await watcher.until_synced()
        assert (await watcher.end()).reason == "unauthenticated"


async def test_a_new_key_of_the_issuer_is_fetched_and_an_old_one_kept_while_it_is_away(issuer: Issuer) -> None:
    now = 0.0
    with published(issuer) as site:
        keys = IssuerKeys(f"http://127.0.0.1:{site.server_port}/", lambda: now)
        first = issuer.newest
        await keys.get(first)
        await keys.get(first)
        assert site.fetches == 1, "known keys are not fetched again"
        issuer.rotate()
        now += PAUSE + 1
        await keys.get(issuer.newest)
        assert site.fetches == 2
        for _ in range(20):
            assert (await refusal_of_key(keys, "made up")) == "unauthenticated"
        assert site.fetches == 2, "names that strangers make up cause no flood of fetches"
    now += LIFETIME + 1
    await keys.get(first)  # the issuer is away


async def test_whoever_comes_while_keys_are_fetched_waits_for_them(issuer: Issuer) -> None:
    """The first was served, and those beside it were told that the keys are not known, or that theirs is none."""
    now = 0.0
    with published(issuer) as site:
        keys = IssuerKeys(f"http://127.0.0.1:{site.server_port}/", lambda: now)
        await asyncio.gather(*(keys.get(issuer.newest) for _ in range(20)))
        assert site.fetches == 1
        issuer.rotate()
        now += PAUSE + 1
        await asyncio.gather(*(keys.get(issuer.newest) for _ in range(20)))
        assert site.fetches == 2


async def test_a_key_that_the_issuer_withdrew_is_refused_once_the_set_is_old(issuer: Issuer) -> None:
    now = 0.0
    with published(issuer) as site:
        keys = IssuerKeys(f"http://127.0.0.1:{site.server_port}/", lambda: now)
        first = issuer.newest
        await keys.get(first)
        issuer.rotate(keep=False)
        now += LIFETIME + 1
        assert await refusal_of_key(keys, first) == "unauthenticated"


async def test_while_no_key_was_ever_had_a_token_cannot_be_judged(tmp_path: Path) -> None:
    keys = IssuerKeys(str(tmp_path / "missing.json"), lambda: 0.0)
    assert await refusal_of_key(keys, "any") == "unavailable"


async def refusal_of_key(keys: IssuerKeys, key_id: str) -> str:
    from askd.domain.errors import AskdError

    with pytest.raises(AskdError) as raised:
        await keys.get(key_id)
    return raised.value.code.value
