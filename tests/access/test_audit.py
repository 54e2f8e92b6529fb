"""The audit log, secrets, and the slowing of bad credentials (issue: who may do what)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.access.managing import give
from tests.clients import Client, connected, grant, refusal
from tests.processes import serving
from tests.questions import text, text_question
from tests.servers import served

from askd.server.throttle import FREE, LONGEST, Throttle

SECRET = "swordfish"


async def _changes(admin: Client) -> dict[str, str]:
    """Some changes, accepted and refused. Returns what is needed to recognize them."""
    asked = await admin.ask(text_question(SECRET))
    await refusal(admin.answer(asked.id, text(SECRET * 9000)))
    await admin.answer(asked.id, text(SECRET))
    await refusal(admin.reject(asked.id, reason=SECRET))
    await refusal(admin.other("askd_" + "0" * 90).cancel(asked.id))
    await give(admin, "user:u", grant("viewer", "w"))
    await admin.list_all()
    return {"ask": asked.id, "me": f"key:{await admin.key_id()}"}


async def test_every_change_has_one_line_that_says_who_what_and_how_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with served(tmp_path / "data", audit={"log": str(log)}) as server:
        known = await _changes(server.admin)
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    me, ask = known["me"], known["ask"]
    assert [(line["principal"], line["action"], line.get("ask"), line["outcome"]) for line in lines] == [
        (me, "Ask", ask, "ok"),
        (me, "AnswerAsk", ask, "answer_invalid"),
        (me, "AnswerAsk", ask, "ok"),
        (me, "RejectAsk", ask, "ask_already_resolved"),
        ("", "CancelAsk", ask, "unauthenticated"),
        (me, "GrantRole", None, "ok"),
    ]
    assert {line["peer"] for line in lines} == {"127.0.0.1"}
    assert all(line["time"].endswith("Z") for line in lines)
    assert SECRET not in log.read_text()


def _arguments(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_secrets_are_in_no_log_database_or_process_argument(tmp_path: Path) -> None:
    with serving(tmp_path / "data", ASKD_AUDIT_LOG="stderr") as process:
        async with connected(process.address, process.credential) as admin:
            await _changes(admin)
            other = (await admin.create_key(grant("viewer", "w"))).secret
            await refusal(admin.other(other[:-1]).who_am_i())
            await admin.other(other).list_all()
            arguments = _arguments(process.pid)
        secrets = [process.credential, other]
        process.terminate()
        texts = [process.logged(), arguments]
        texts += [file.read_bytes().decode("latin-1") for file in process.data_dir.glob("askd.db*")]
        for secret in secrets:
            assert len(secret) > 60
            for known in (secret, secret[31:]):
                assert not any(known in told for told in texts)
        assert "GrantRole" in process.logged()


async def test_an_audit_log_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    from tests.processes import run

    missing = str(tmp_path / "missing" / "audit.jsonl")
    done = run("serve", "--data-dir", str(tmp_path / "data"), "--grpc", "127.0.0.1:0", "--http", "off",
               ASKD_AUDIT_LOG=missing)  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "missing" in done.stderr.splitlines()[-1]


class _Held:
    """What asyncio.sleep was asked for, without sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_an_address_that_fails_again_and_again_is_held_back_longer_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _Held(monkeypatch)
    now = 0.0
    throttle = Throttle(lambda: now)
    for _ in range(FREE):
        await throttle.hold("192.0.2.1")
    assert held.seconds == []
    for _ in range(20):
        await throttle.hold("192.0.2.1")
    assert held.seconds == sorted(held.seconds)
    assert held.seconds[-1] == LONGEST
    count = len(held.seconds)
    await throttle.hold("192.0.2.2")
    now += 3600
    await throttle.hold("192.0.2.1")
    assert len(held.seconds) == count, "another address, or the same one much later, starts anew"


async def test_a_good_credential_is_not_slowed_by_anothers_failures(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as server:
        stranger = server.admin.other("askd_" + "0" * 90)
        failing = [asyncio.create_task(refusal(stranger.who_am_i())) for _ in range(FREE + 12)]
        await asyncio.wait(failing, return_when=asyncio.FIRST_COMPLETED)
        assert await server.admin.who_am_i()
        assert not all(task.done() for task in failing), "nobody was held back"
        for task in failing:
            task.cancel()
        await asyncio.gather(*failing, return_exceptions=True)
