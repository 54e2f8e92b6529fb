"""Every setting, read once at the edge (CONTRACT section 10): options, then ASKD_* variables, then askd.toml."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_dir
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

_SPANS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class ConfigError(Exception):
    """A setting that is wrong; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0 lets the system pick one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _address(value: object) -> object:
    """HOST:PORT, where no host means the loopback address."""
    if not isinstance(value, str):
        return value
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must be HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


def _address_or_off(value: object) -> object:
    return None if value == "off" else _address(value)


def _seconds(value: object) -> object:
    """A number of seconds, or a text such as 15s, 10m, 2h, 30d."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", value)
        if not match:
            raise ValueError("must be a span such as 15s, 10m, 2h or 30d")
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(value, bool):
        raise ValueError("must be a span such as 15s, 10m, 2h or 30d")
    return value


def _key_source(value: str) -> str:
    """A file, or a URL of a scheme that fetches."""
    if "://" in value and not value.startswith(("https://", "http://")):
        raise ValueError("must be an https URL or a file")
    return value


#: Only algorithms with a public key: a shared secret would let whoever verifies tokens make them.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _base_url(value: str) -> str:
    try:
        url = urlsplit(value)
        named = url.port is None or url.port > 0
    except ValueError:
        named = False
    if value and not (named and url.scheme in ("http", "https") and url.hostname):
        raise ValueError("must be a URL such as http://127.0.0.1:11434/v1")
    if value and (url.username is not None or url.query or url.fragment):
        raise ValueError("must have no credentials, query or fragment")
    return value


def _variable(value: str, info: ValidationInfo) -> str:
    if not value and not info.data.get("base_url"):
        raise ValueError("is required where there is no base_url")
    if value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):  # a key itself, perhaps, which is not repeated
        raise ValueError("must be the name of an environment variable")
    return value


def _key(value: str, variable: str) -> str:
    if not value:
        raise ValueError(f"the environment variable {variable} is not set")
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"the environment variable {variable} holds what no key does")
    return value


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of something in so many seconds."""

    amount: int
    seconds: int


def _rate(value: object) -> object:
    """A text such as 20/minute."""
    if isinstance(value, Rate):
        return value
    amount, _, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    if unit not in _SPANS or not re.fullmatch(r"[1-9][0-9]{0,4}", amount):
        raise ValueError("must be a number up to 99999 and a span: /second, /minute, /hour or /day")
    return Rate(int(amount), _SPANS[unit])


Listen = Annotated[Address, NoDecode, BeforeValidator(_address)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Database(_Section):
    """`[database]`. `listen_url` leads to the same PostgreSQL database past a pooler, where `url` leads through one."""

    url: str = ""
    listen_url: str = ""


class Grpc(_Section):
    """`[grpc]`."""

    listen: Listen = Address("127.0.0.1", 50051)


class Http(_Section):
    """`[http]`. No address: gRPC alone is served."""

    listen: Annotated[Address | None, BeforeValidator(_address_or_off)] = Address("127.0.0.1", 8080)
    cors_origins: tuple[str, ...] = ()


class Watch(_Section):
    """`[watch]`. `heartbeat` is in seconds."""

    heartbeat: Annotated[Seconds, Field(gt=0)] = 15.0


class Retention(_Section):
    """`[retention]`. `payload` is in seconds after a resolution; 0 keeps payloads."""

    payload: Annotated[Seconds, Field(ge=0)] = 30 * 86400.0


class Tls(_Section):
    """`[tls]`, for gRPC and HTTP alike. With `client_ca` every client needs a certificate of that authority."""

    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @model_validator(mode="after")
    def _check(self) -> "Tls":
        if (self.cert is None) is not (self.key is None):
            raise ValueError("cert and key go together")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")
        return self


class Users(_Section):
    """`[users]`: the one issuer of user tokens. `jwks` is a URL or a file."""

    issuer: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)]
    jwks: Annotated[str, Field(min_length=1), AfterValidator(_key_source)]
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256")


class Audit(_Section):
    """`[audit]`. `log` is a file to append to, "stderr", or "off"."""

    log: str = "off"


class Provider(_Section):
    """`[consult.providers.ID]`. `timeout` is in seconds. `output` says how models are made to return advice: by a JSON
    Schema of the response or by calling a tool; without it, by a schema where the model is known to take one."""

    kind: Literal["openai", "anthropic", "google"]
    base_url: Annotated[str, AfterValidator(_base_url)] = ""
    api_key_env: Annotated[str, AfterValidator(_variable), Field(validate_default=True)] = ""
    models: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    timeout: Annotated[Seconds, Field(gt=0, le=3600)] = 60.0
    output: Literal["schema", "tool"] | None = None
    _api_key: SecretStr = PrivateAttr(SecretStr(""))

    @property
    def api_key(self) -> str:
        """What the variable named by `api_key_env` held when the settings were read; empty where none is named."""
        return self._api_key.get_secret_value()

    def read_key(self, environment: Mapping[str, str]) -> None:
        """Take the key from its variable. Raises ValueError."""
        if self.api_key_env:
            self._api_key = SecretStr(_key(environment.get(self.api_key_env, "").strip(), self.api_key_env))


class Consult(_Section):
    """`[consult]`. `rate` is of each workspace and provider."""

    rate: Annotated[Rate, BeforeValidator(_rate)] = Rate(20, 60)
    providers: dict[Annotated[str, Field(min_length=1)], Provider] = {}


#: The askd.toml that load() reads next: a class of settings for each file takes longer to make than to fill.
_file: ContextVar[Path] = ContextVar("askd.toml")


class Settings(BaseSettings):
    """Everything that `askd serve` can be told."""

    model_config = SettingsConfigDict(
        env_prefix="ASKD_", env_nested_delimiter="_", env_nested_max_split=1, extra="forbid", frozen=True
    )

    data_dir: Path = Field(default_factory=lambda: default_data_dir())
    database: Database = Database()
    grpc: Grpc = Grpc()
    http: Http = Http()
    watch: Watch = Watch()
    retention: Retention = Retention()
    tls: Tls = Tls()
    users: Users | None = None
    audit: Audit = Audit()
    consult: Consult = Consult()
    insecure: bool = False

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Options before environment before askd.toml."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, _file.get())

    @property
    def database_url(self) -> str:
        """The database, which is a file in the data folder where none is named."""
        return self.database.url or f"sqlite+aiosqlite:///{self.data_dir.absolute() / 'askd.db'}"

    @property
    def admin_key(self) -> Path:
        """The file of the first key's credential."""
        return self.data_dir / "admin.key"


def default_data_dir() -> Path:
    """The platform's user data folder."""
    return Path(user_data_dir("askd", appauthor=False))


def load(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Read every setting. `options` is what the command line said, nested like askd.toml. Raises ConfigError."""
    data_dir = Path(options.get("data_dir") or environment.get("ASKD_DATA_DIR") or default_data_dir())
    named = options.get("config") or environment.get("ASKD_CONFIG")
    path = Path(named) if named else data_dir / "askd.toml"
    if named and not path.is_file():
        raise ConfigError(f"{path}: no such file")
    given = {key: value for key, value in options.items() if key != "config"}
    try:
        _file.set(path)
        settings = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:  # not TOML at all
        raise ConfigError(f"{path}: {error}") from None
    _read_keys(settings.consult, environment)
    return settings


def _read_keys(consult: Consult, environment: Mapping[str, str]) -> None:
    for identifier, provider in consult.providers.items():
        try:
            provider.read_key(environment)
        except ValueError as error:
            raise ConfigError(f"consult.providers.{identifier}.api_key_env: {error}") from None
