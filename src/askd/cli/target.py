"""The server that commands talk to, and the credential for it (CONTRACT section 10)."""

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from askd.cli import failures
from askd.cli.options import CertificateAuthority
from askd.domain.errors import AskdError, Code

if TYPE_CHECKING:
    import grpc

    from askd.client import AsyncClient

_T = TypeVar("_T")

DEFAULT_ADDRESS = "127.0.0.1:50051"
PATIENCE = 2.0  # seconds to keep trying while the server is unavailable


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server. The fields are options of the commands that talk to it."""

    address: Annotated[str, typer.Option(envvar="ASKD_ADDRESS", metavar="HOST:PORT", help="The server.")] = (
        DEFAULT_ADDRESS
    )
    ca: CertificateAuthority = None
    cert: Annotated[
        Path | None, typer.Option(envvar="ASKD_CERT", metavar="FILE", help="Call over TLS with this certificate, PEM.")
    ] = None
    key_file: Annotated[
        Path | None, typer.Option(envvar="ASKD_KEY_FILE", metavar="FILE", help="The certificate's private key, PEM.")
    ] = None

    def run(self, action: Callable[["AsyncClient"], Awaitable[_T]]) -> _T:
        """Do something with a client. A refusal ends the program with exit code 1 and its code on standard error."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the core's own log is no message for people
        # grpc is imported only where a server is called.
        from askd.client import RequestError

        try:
            return asyncio.run(self._with_client(action))
        except RequestError as error:
            hint = _no_credential() if error.code == "unauthenticated" and not self._key() else ""
            raise failures.refused(error.code, error.message, hint) from error

    async def _with_client(self, action: Callable[["AsyncClient"], Awaitable[_T]]) -> _T:
        async with self._client() as client:
            return await action(client)

    def _client(self) -> "AsyncClient":
        from askd.client import AsyncClient

        credentials = self._credentials()
        try:
            return AsyncClient(
                self._address, self._key(), workspace=self._workspace, patience=PATIENCE, credentials=credentials
            )
        except ValueError as error:
            raise failures.refused("unauthenticated", str(error)) from error

    def _credentials(self) -> "grpc.ChannelCredentials | None":
        """Those of TLS, where an option asks for it."""
        if self.ca is None and self.cert is None and self.key_file is None:
            return None
        if (self.cert is None) is not (self.key_file is None):
            raise typer.BadParameter("--cert and --key-file go together")
        from askd.client import tls_credentials

        try:
            return tls_credentials(ca=self.ca, cert=self.cert, key=self.key_file)
        except OSError as error:
            raise AskdError(Code.INVALID_ARGUMENTS, f"{error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise AskdError(Code.INVALID_ARGUMENTS, str(error)) from error

    @property
    def _workspace(self) -> str:
        return ""

    @property
    def _address(self) -> str:
        return self.address or DEFAULT_ADDRESS

    def _key(self) -> str:
        """ASKD_KEY, else the local server's admin key. That key is sent to another machine only where ASKD_DATA_DIR
        names its folder: a forgotten ASKD_KEY must not show it to a stranger."""
        from askd.client.connection import is_loopback

        if key := os.environ.get("ASKD_KEY", "").strip():
            return key
        if not os.environ.get("ASKD_DATA_DIR") and not is_loopback(self._address):
            return ""
        try:
            return _admin_key().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""


@dataclass(frozen=True, kw_only=True)
class Target(Server):
    """A server and a workspace on it."""

    workspace: Annotated[
        str, typer.Option(envvar="ASKD_WORKSPACE", metavar="ID", help="The workspace; empty: the credential's own.")
    ] = ""

    @property
    def _workspace(self) -> str:
        return self.workspace


def takes_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes a `target`, the options that the target's fields are, in its place."""
    signature = inspect.signature(command)
    kind: type[Server] = signature.parameters["target"].annotation
    options = [option.replace(kind=option.KEYWORD_ONLY) for option in inspect.signature(kind).parameters.values()]
    own = [parameter for name, parameter in signature.parameters.items() if name != "target"]

    @functools.wraps(command)
    def call(**arguments: Any) -> None:
        target = kind(**{option.name: arguments.pop(option.name) for option in options})
        command(target=target, **arguments)

    call.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]  # Typer reads it
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
    return call


def _admin_key() -> Path:
    from platformdirs import user_data_dir

    return Path(os.environ.get("ASKD_DATA_DIR") or user_data_dir("askd", appauthor=False)) / "admin.key"


def _no_credential() -> str:
    return f"set ASKD_KEY, or be a user who can read {_admin_key()}"
