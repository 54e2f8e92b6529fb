"""`askd gateway`."""

import sys
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError

from askd.cli import loops
from askd.cli.options import CertificateAuthority
from askd.config import Address, Http


def gateway(
    upstream: Annotated[
        str, typer.Option(envvar="ASKD_UPSTREAM", metavar="HOST:PORT", help="Where the askd server serves gRPC.")
    ],
    http: Annotated[
        str, typer.Option(envvar="ASKD_HTTP_LISTEN", metavar="HOST:PORT", help="Where to listen; :0 picks a port.")
    ] = str(Http().listen),
    cors_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Pages of this origin may call. Repeatable.")
    ] = None,
    ca: CertificateAuthority = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine.")] = False,
) -> None:
    """Serve the REST gateway alone, in front of any askd server."""
    listen = _address(http)
    if not listen.is_loopback and not insecure:
        _fail(f"{listen} is beyond this machine and has no TLS; give --insecure to allow it")
    from askd.gateway.command import run_gateway
    from askd.gateway.server import ListenError
    from askd.server import logs

    logs.configure()
    try:
        loops.run(run_gateway(upstream, listen, cors_origin or (), ca))
    except ListenError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")


def _address(text: str) -> Address:
    try:
        listen = Http.model_validate({"listen": text}).listen
    except ValidationError:
        listen = None
    if listen is None:
        raise typer.BadParameter("must be HOST:PORT", param_hint="--http")
    return listen


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"askd: {message}\n")
    raise SystemExit(1)
