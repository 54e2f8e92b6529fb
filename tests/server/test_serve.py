"""`askd serve` as a process: its ready line, its files and its exits (CONTRACT section 10)."""

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients import Client, connected, refusal
from tests.processes import LISTEN, PROGRAM, START_LIMIT, ServerProcess, end, environment, run, serving, start
from tests.questions import text_question

from askd.store.database import StartError, open_database
from askd.store.migrations import HEAD


def failing(*arguments: str, **settings: str) -> str:
    """The one line that a server which does not start leaves on standard error."""
    done = run("serve", *arguments, **settings)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # the log is no error
    assert line.startswith("askd: ")
    for insides in ("Traceback", "sqlalchemy", "Error("):
        assert insides not in line
    return line


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- ready ---


async def test_a_server_says_where_it_is_and_keeps_its_files_to_itself(tmp_path: Path) -> None:
    data_dir = tmp_path / "not" / "there" / "yet"
    before = os.umask(0)  # the most careless of users
    try:
        data_dir.parent.mkdir(parents=True)
        server = start(data_dir)
    finally:
        os.umask(before)
    try:
        assert re.fullmatch(r"askd ready grpc=127\.0\.0\.1:[1-9]\d* http=off", server.ready)
        async with connected(server.address, server.credential) as admin:
            assert await admin.health() == "SERVING"
            await admin.ask()
        files = {path.name: mode(path) for path in data_dir.iterdir()}
        assert {"askd.db", "askd.db-wal", "askd.db-shm", "admin.key"} <= files.keys()
        assert set(files.values()) == {0o600}, files
        assert mode(data_dir) == 0o700
        server.signal(signal.SIGINT)
        assert server.wait() == 0, "it ends as after SIGTERM"
        assert server.process.stdout is not None
        assert server.process.stdout.read() == "", "one line and no more"
    finally:
        end(server.process)


async def test_logs_are_json_lines_that_hold_neither_secrets_nor_what_users_wrote(
    process: ServerProcess, process_admin: Client
) -> None:
    created = await process_admin.create_key(name="named privately")
    ask = await process_admin.ask(text_question("asked privately"), request_id="private-id")
    await process_admin.answer(ask.id)
    await refusal(process_admin.other("askd_" + "x" * 90).who_am_i())
    await refusal(process_admin.ask(text_question(title=" "), session_id="private-session"))
    assert process.terminate() == 0
    logged = process.logged()
    for line in logged.splitlines():
        assert {"event", "level", "timestamp"} <= json.loads(line).keys()
    for secret in (created.secret[31:], process.credential[31:], "privately", "private-id", "private-session", "Ada"):
        assert secret not in logged


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path, database_settings: dict[str, str]) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, **database_settings) as first:
        credential = first.credential
        async with connected(first.address, credential) as admin:
            ask = await admin.ask()
        assert first.terminate() == 0
    with serving(data_dir, **database_settings) as second:
        assert second.credential == credential
        async with connected(second.address, credential) as admin:
            assert await admin.get(ask.id) == ask


async def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir) as server:
        assert server.terminate() == 0
    connection = sqlite3.connect(data_dir / "askd.db", isolation_level=None)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    line = failing("--data-dir", str(data_dir), *LISTEN)
    assert "newer" in line
    assert "9999" in line


async def test_settings_come_from_options_then_environment_then_file(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "elsewhere.db"
    data_dir.mkdir()
    (data_dir / "askd.toml").write_text(
        f'[grpc]\nlisten = "127.0.0.1:1"\n[http]\nlisten = "off"\n[watch]\nheartbeat = "0.2s"\n'
        f'[database]\nurl = "sqlite+aiosqlite:///{elsewhere}"\n'
    )
    with serving(data_dir, listen=("--grpc", "localhost:0"), ASKD_GRPC_LISTEN="127.0.0.1:2") as server:
        assert elsewhere.exists()
        assert not (data_dir / "askd.db").exists()
        async with connected(server.address, server.credential) as admin, admin.watch() as watcher:
            await watcher.until_synced()
            assert not (await watcher.response(limit=5)).events, "it beats as the file says"


# --- beside a server that runs ---


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("running") / "data") as server:
        yield server


async def _is_unharmed(server: ServerProcess) -> bool:
    async with connected(server.address, server.credential) as admin:
        return await admin.health() == "SERVING" and (await admin.ask()).created_revision > 0


@pytest.mark.parametrize("by", ["askd", "another"])
async def test_a_busy_port_is_one_line(running: ServerProcess, tmp_path: Path, by: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = running.address if by == "askd" else f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in failing("--data-dir", str(tmp_path / "other"), "--grpc", address, "--http", "off")
    assert await _is_unharmed(running)


async def test_a_database_that_another_server_holds_is_left_alone(running: ServerProcess) -> None:
    line = failing("--data-dir", str(running.data_dir), *LISTEN)
    assert "another server holds" in line
    assert str(running.data_dir / "askd.db") in line
    assert await _is_unharmed(running)


async def test_a_lost_key_is_made_again_beside_the_running_server(running: ServerProcess) -> None:
    lost = running.credential
    done = run("keys", "bootstrap", "--data-dir", str(running.data_dir))
    assert done.returncode == 0, done.stderr
    assert running.credential != lost
    assert mode(running.data_dir / "admin.key") == 0o600
    assert await _is_unharmed(running)


def test_of_two_servers_that_start_at_once_on_an_empty_folder_one_serves(tmp_path: Path) -> None:
    command = [str(PROGRAM), "serve", "--data-dir", str(tmp_path / "data"), *LISTEN]

    def begin() -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())

    both = [begin(), begin()]
    try:
        lines = [process.stdout.readline() for process in both if process.stdout]
        assert sorted(line.startswith("askd ready ") for line in lines) == [False, True], lines
        loser, winner = both if lines[0] == "" else both[::-1]
        said = loser.communicate(timeout=START_LIMIT)[1]
        assert loser.returncode == 1
        assert "another server holds" in said.splitlines()[-1]
        winner.terminate()
        winner.communicate(timeout=START_LIMIT)
        assert winner.returncode == 0
    finally:
        for process in both:
            process.kill()
            process.communicate()


# --- what does not start ---


def test_a_folder_that_cannot_be_made_is_named() -> None:
    assert "/proc/askd" in failing("--data-dir", "/proc/askd", *LISTEN)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "askd.db").write_text("precious, and no database" * 100)
    line = failing("--data-dir", str(data_dir), *LISTEN)
    assert str(data_dir / "askd.db") in line
    assert (data_dir / "askd.db").read_text() == "precious, and no database" * 100


def test_a_database_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    line = failing("--data-dir", str(tmp_path / "data"), *LISTEN, "--database", "mysql://u:hunter2@h/d")
    assert "mysql" in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite+aiosqlite:////proc/askd.db", "/proc/askd.db"),
        ("sqlite+aiosqlite:////nowhere/askd.db", "/nowhere/askd.db"),
        ("sqlite+aiosqlite:///:memory:", "SQLite"),
        ("sqlite+aiosqlite://", "SQLite"),
        ("nonsense", "database"),
        ("http://u:hunter2@h:port/d", "database"),
    ],
)
def test_a_url_that_names_no_database_is_a_start_error(url: str, named: str) -> None:
    with pytest.raises(StartError) as raised:
        open_database(url)
    assert named in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    assert "grpc.listen" in failing("--data-dir", str(tmp_path / "data"), "--grpc", "nowhere")
    assert not (tmp_path / "data").exists(), "refused before anything was made"


def test_listening_beyond_this_machine_needs_tls_or_insecure(tmp_path: Path) -> None:
    line = failing("--data-dir", str(tmp_path / "data"), "--grpc", "0.0.0.0:0", "--http", "off")
    assert "--insecure" in line
    assert "0.0.0.0" in line  # noqa: S104
    assert not (tmp_path / "data").exists(), "refused before anything was made"


async def test_insecure_allows_listening_beyond_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--insecure", listen=("--grpc", "0.0.0.0:0", "--http", "off")) as server:
        port = server.address.rpartition(":")[2]
        async with connected(f"127.0.0.1:{port}", server.credential) as admin:
            assert (await admin.ask()).created_revision == 1
