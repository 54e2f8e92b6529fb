"""Settings: options, then the environment, then askd.toml, then the defaults (CONTRACT section 10)."""

from pathlib import Path
from typing import Any

import pytest

from askd.config import Address, ConfigError, default_data_dir, load


def toml(folder: Path, text: str, name: str = "askd.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_with_no_setting_at_all_the_defaults_hold() -> None:
    settings = load({"data_dir": "/data"}, {})
    assert str(settings.grpc.listen) == "127.0.0.1:50051"
    assert str(settings.http.listen) == "127.0.0.1:8080"
    assert settings.watch.heartbeat == 15
    assert settings.database_url == "sqlite+aiosqlite:////data/askd.db"
    assert settings.admin_key == Path("/data/admin.key")


def test_the_default_folder_is_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / "askd"
    assert load({}, {}).data_dir == tmp_path / "askd"


SOURCES: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("grpc.listen", "ASKD_GRPC_LISTEN", {"grpc": {"listen": "127.0.0.1:1"}}, "127.0.0.1:2", "127.0.0.1:3"),
    ("http.listen", "ASKD_HTTP_LISTEN", {"http": {"listen": "127.0.0.1:1"}}, "127.0.0.1:2", "127.0.0.1:3"),
    ("database.url", "ASKD_DATABASE_URL", {"database": {"url": "sqlite:///1"}}, "sqlite:///2", "sqlite:///3"),
]


@pytest.mark.parametrize(("name", "variable", "option", "from_environment", "from_file"), SOURCES)
def test_an_option_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str, option: dict[str, Any],
    from_environment: str, from_file: str,
) -> None:  # fmt: skip
    section, key = name.split(".")

    def value(**options: Any) -> str:
        return str(getattr(getattr(load({"data_dir": tmp_path} | options, {}), section), key))

    toml(tmp_path, f'[{section}]\n{key} = "{from_file}"\n')
    assert value() == from_file
    monkeypatch.setenv(variable, from_environment)
    assert value() == from_environment
    assert value(**option) == option[section][key]


def test_the_file_is_found_by_option_environment_and_folder(tmp_path: Path) -> None:
    here = toml(tmp_path, "[watch]\nheartbeat = 1\n")
    other = toml(tmp_path, "[watch]\nheartbeat = 2\n", "other.toml")
    third = toml(tmp_path, "[watch]\nheartbeat = 3\n", "third.toml")
    variables = {"ASKD_DATA_DIR": str(tmp_path)}
    assert load({}, variables).watch.heartbeat == 1
    assert load({"data_dir": here.parent}, {}).watch.heartbeat == 1
    assert load({}, variables | {"ASKD_CONFIG": str(other)}).watch.heartbeat == 2
    assert load({"config": third}, variables | {"ASKD_CONFIG": str(other)}).watch.heartbeat == 3


@pytest.mark.parametrize(
    ("text", "seconds"), [('"15s"', 15), ('"250ms"', None), ('"2m"', 120), ("0.25", 0.25), ("7", 7), ('"1.5h"', 5400)]
)
def test_a_span_is_seconds_or_a_text_with_a_unit(tmp_path: Path, text: str, seconds: float | None) -> None:
    toml(tmp_path, f"[watch]\nheartbeat = {text}\n")
    if seconds is None:
        with pytest.raises(ConfigError, match=r"watch\.heartbeat"):
            load({"data_dir": tmp_path}, {})
    else:
        assert load({"data_dir": tmp_path}, {}).watch.heartbeat == seconds


BAD_FILES = [
    ("[watch]\nheartbeat = 0\n", "watch.heartbeat"),
    ("[watch]\nheartbeat = -1\n", "watch.heartbeat"),
    ('[watch]\nheartbeat = "soon"\n', "watch.heartbeat"),
    ("[watch]\nheartbeat = true\n", "watch.heartbeat"),
    ("[watch]\nheartbeat = inf\n", "watch.heartbeat"),
    ("[watch]\nheartbeat = nan\n", "watch.heartbeat"),
    ("[watch]\nhartbeat = 1\n", "watch.hartbeat"),
    ("[wtach]\nheartbeat = 1\n", "wtach"),
    ('[grpc]\nlisten = "50051"\n', "grpc.listen"),
    ('[grpc]\nlisten = "127.0.0.1:65536"\n', "grpc.listen"),
    ('[grpc]\nlisten = "127.0.0.1:x"\n', "grpc.listen"),
    ("[grpc]\nlisten = 50051\n", "grpc.listen"),
    ('[grpc]\nlisten = "off"\n', "grpc.listen"),
    ('[http]\nlisten = "no"\n', "http.listen"),
    ("[http]\ncors_origins = 1\n", "http.cors_origins"),
    ("grpc = 1\n", "grpc"),
    ("insecure = 7\n", "insecure"),
    ("[watch\n", "askd.toml"),
    ("\x00", "askd.toml"),
]


@pytest.mark.parametrize(("text", "name"), BAD_FILES)
def test_a_wrong_setting_is_one_line_that_names_it(tmp_path: Path, text: str, name: str) -> None:
    toml(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load({"data_dir": tmp_path}, {})
    message = str(raised.value)
    assert name in message
    assert "\n" not in message
    assert "FromFile" not in message


def test_a_file_that_is_named_but_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load({"config": tmp_path / "missing.toml"}, {})


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASKD_GRPC_LISTEN", "nowhere")
    with pytest.raises(ConfigError, match=r"grpc\.listen"):
        load({"data_dir": tmp_path}, {})


def test_an_unknown_variable_of_the_clients_is_no_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ASKD_ADDRESS", "ASKD_KEY", "ASKD_WORKSPACE"):
        monkeypatch.setenv(name, "x")
    load({"data_dir": tmp_path}, {})


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        (":0", Address("127.0.0.1", 0), True),
        ("localhost:1", Address("localhost", 1), True),
        ("127.5.5.5:1", Address("127.5.5.5", 1), True),
        ("[::1]:1", Address("::1", 1), True),
        ("0.0.0.0:1", Address("0.0.0.0", 1), False),  # noqa: S104
        ("[::]:1", Address("::", 1), False),
        ("192.168.0.1:1", Address("192.168.0.1", 1), False),
        ("askd.example:1", Address("askd.example", 1), False),
    ],
)
def test_an_address_is_host_and_port(tmp_path: Path, text: str, address: Address, loopback: bool) -> None:
    listen = load({"data_dir": tmp_path, "grpc": {"listen": text}}, {}).grpc.listen
    assert (listen, listen.is_loopback) == (address, loopback)
    assert str(listen) == (text if not text.startswith(":") else f"127.0.0.1{text}")
