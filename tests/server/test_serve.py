"""`askd serve` as a process: its ready line, its files and its exits (CONTRACT section 10)."""

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest
from tests.clients import Client, connected, refusal
from tests.processes import LISTEN, PROGRAM, START_LIMIT, ServerProcess, environment, run, serving, start
from tests.questions import text_question

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


async def test_ready_is_one_line_that_says_where(process: ServerProcess, process_admin: Client) -> None:
    assert re.fullmatch(r"askd ready grpc=127\.0\.0\.1:[1-9]\d* http=off", process.ready)
    assert await process_admin.health() == "SERVING"
    assert process.terminate() == 0
    assert process.process.stdout is not None
    assert process.process.stdout.read() == ""


async def test_what_lies_on_disk_is_the_owners_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "not" / "there" / "yet"
    data_dir.parent.mkdir(parents=True)
    before = os.umask(0)  # the most careless of users
    try:
        server = start(data_dir)
    finally:
        os.umask(before)
    try:
        async with connected(server.address, server.credential) as admin:
            await admin.ask()
        files = {path.name: mode(path) for path in data_dir.iterdir()}
        assert {"askd.db", "askd.db-wal", "askd.db-shm", "admin.key"} <= files.keys()
        assert set(files.values()) == {0o600}, files
        assert mode(data_dir) == 0o700
    finally:
        server.kill()
        assert server.process.stdout is not None
        server.process.stdout.close()


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


async def test_sigint_ends_it_as_sigterm_does(process: ServerProcess) -> None:
    process.signal(signal.SIGINT)
    assert process.wait() == 0


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir) as first:
        credential = first.credential
        async with connected(first.address, credential) as admin:
            ask = await admin.ask()
        assert first.terminate() == 0
    with serving(data_dir) as second:
        assert second.credential == credential
        async with connected(second.address, credential) as admin:
            assert await admin.get(ask.id) == ask


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


# --- what does not start ---


async def test_a_busy_port_is_one_line_and_exit_code_1(process: ServerProcess, tmp_path: Path) -> None:
    line = failing("--data-dir", str(tmp_path / "other"), "--grpc", process.address, "--http", "off")
    assert process.address in line
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in failing("--data-dir", str(tmp_path / "other"), "--grpc", address, "--http", "off")
    async with connected(process.address, process.credential) as admin:
        assert (await admin.ask()).created_revision == 1


async def test_a_database_that_another_server_holds_is_left_alone(process: ServerProcess) -> None:
    line = failing("--data-dir", str(process.data_dir), *LISTEN)
    assert "another server holds" in line
    assert str(process.data_dir / "askd.db") in line
    async with connected(process.address, process.credential) as admin:
        assert (await admin.ask()).created_revision == 1


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir) as server:
        assert server.terminate() == 0
    with sqlite3.connect(data_dir / "askd.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    line = failing("--data-dir", str(data_dir), *LISTEN)
    assert "newer" in line
    assert "9999" in line


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "askd.db").write_text("precious, and no database" * 100)
    line = failing("--data-dir", str(data_dir), *LISTEN)
    assert str(data_dir / "askd.db") in line
    assert (data_dir / "askd.db").read_text() == "precious, and no database" * 100


@pytest.mark.parametrize("place", ["/proc/askd", "/dev/null/askd", "file/askd"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / place) if place.startswith("file") else place
    assert folder.rpartition("/")[0] in failing("--data-dir", folder, *LISTEN)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite+aiosqlite:////proc/askd.db", "/proc/askd.db"),
        ("sqlite+aiosqlite:///:memory:", "SQLite"),
        ("sqlite+aiosqlite://", "SQLite"),
        ("mysql://u:hunter2@h/d", "mysql"),
        ("nonsense", "database"),
        ("", "database"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(tmp_path: Path, url: str, named: str) -> None:
    if not url:
        pytest.skip("an empty option is none")
    line = failing("--data-dir", str(tmp_path / "data"), *LISTEN, "--database", url)
    assert named in line
    assert "hunter2" not in line


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    assert "grpc.listen" in failing("--data-dir", str(data_dir), "--grpc", "nowhere")
    assert "grpc.listen" in failing("--data-dir", str(data_dir), ASKD_GRPC_LISTEN="127.0.0.1:99999")
    data_dir.mkdir()
    (data_dir / "askd.toml").write_text("[watch]\nheartbeet = 1\n")
    assert "watch.heartbeet" in failing("--data-dir", str(data_dir), *LISTEN)
    assert "missing.toml" in failing("--data-dir", str(data_dir), "--config", str(tmp_path / "missing.toml"))


@pytest.mark.parametrize("option", ["--grpc", "--http"])
def test_listening_beyond_this_machine_needs_tls_or_insecure(tmp_path: Path, option: str) -> None:
    line = failing("--data-dir", str(tmp_path / "data"), *LISTEN, option, "0.0.0.0:0")
    assert "--insecure" in line
    assert "0.0.0.0" in line  # noqa: S104
    assert not (tmp_path / "data").exists(), "refused before anything was made"


async def test_insecure_allows_listening_beyond_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--insecure", listen=("--grpc", "0.0.0.0:0", "--http", "off")) as server:
        port = server.address.rpartition(":")[2]
        async with connected(f"127.0.0.1:{port}", server.credential) as admin:
            assert (await admin.ask()).created_revision == 1


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("serve", "--nonsense").returncode == 2


def test_of_two_servers_that_start_at_once_on_an_empty_folder_one_serves(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    command = [str(PROGRAM), "serve", "--data-dir", str(data_dir), *LISTEN]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, env=environment(), **pipes) for _ in range(2)]  # type: ignore[call-overload]
    try:
        lines = [process.stdout.readline() for process in both]
        assert sorted(line.startswith("askd ready ") for line in lines) == [False, True], lines
        loser = both[0 if lines[0] == "" else 1]
        said = loser.communicate(timeout=START_LIMIT)[1]
        assert loser.returncode == 1
        assert "another server holds" in said.splitlines()[-1]
    finally:
        for process in both:
            process.kill()
            process.communicate()
    with serving(data_dir) as server:
        done = run("whoami", ASKD_ADDRESS=server.address, ASKD_KEY=server.credential)
        assert done.returncode == 0, done.stderr


async def test_a_lost_key_is_made_again_beside_the_running_server(process: ServerProcess) -> None:
    lost = process.credential
    done = run("keys", "bootstrap", "--data-dir", str(process.data_dir))
    assert done.returncode == 0, done.stderr
    assert process.credential != lost
    assert mode(process.data_dir / "admin.key") == 0o600
    async with connected(process.address, process.credential) as admin:
        assert len(await admin.list_keys()) == 2
