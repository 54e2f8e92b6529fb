"""`askd serve`."""

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askd.config import Address, ConfigError, Settings, load

if TYPE_CHECKING:
    from askd.gateway.server import HttpServer
    from askd.server.app import Server

#: Seconds that HTTP may drain before gRPC begins to.
HTTP_FIRST = 1.5


def serve(
    data_dir: Annotated[Path | None, typer.Option(help="The folder of the database, admin.key and askd.toml.")] = None,
    database: Annotated[str | None, typer.Option(help="The database's URL.")] = None,
    grpc: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where gRPC listens; :0 picks a port.")] = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where HTTP listens, or off.")] = None,
    config: Annotated[Path | None, typer.Option(help="The file of settings. Default: askd.toml in the folder.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key, PEM.")] = None,
    client_ca: Annotated[Path | None, typer.Option(help="Demand client certificates of this authority, PEM.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without TLS.")] = False,
) -> None:
    """Run the service."""
    options: dict[str, Any] = {
        "data_dir": data_dir,
        "config": config,
        "database": database and {"url": database},
        "grpc": grpc and {"listen": grpc},
        "http": http and {"listen": http},
        "insecure": insecure or None,
        "tls": _given(cert=tls_cert, key=tls_key, client_ca=client_ca),
    }
    try:
        settings = load(_given(**options) or {}, os.environ)
        _refuse_exposure(settings)
    except ConfigError as error:
        _fail(str(error))
    os.umask(0o077)  # what the server writes is nobody else's to read
    _run(settings)


def _given(**options: Any) -> dict[str, Any] | None:
    return {name: value for name, value in options.items() if value is not None} or None


def _refuse_exposure(settings: Settings) -> None:
    if settings.tls.cert is not None:
        return
    for address in (settings.grpc.listen, settings.http.listen):
        if address is not None and not address.is_loopback and not settings.insecure:
            raise ConfigError(f"{address} is beyond this machine and has no TLS; give --insecure to allow it")


def _run(settings: Settings) -> None:
    # What gRPC itself writes is no JSON line, and says of a busy port what a StartError says better.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from askd.server import logs
    from askd.store.database import StartError

    logs.configure()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings))
    except StartError as error:
        _fail(str(error))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(settings: Settings) -> None:
    from askd.server.app import Server, open_store

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = Server(settings, await open_store(settings))
    http: HttpServer | None = None
    try:
        await server.start()
        if settings.http.listen is not None:
            http = await _start_http(settings, settings.http.listen, server)
        _settle()
        _say_ready(server.address, http.address if http else None)
        await stopped.wait()
    finally:
        await _drain(server, http)


def _settle() -> None:
    """Let the collector of garbage leave alone what stays until the end, and look for cycles, of which calls leave few,
    a seventieth as often: it took a tenth of a busy server's time. And let a thread that converts a long page hand the
    interpreter to the event loop ten times as quickly as it would, which else waits 5 ms at its every step."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(0.0005)


async def _start_http(settings: Settings, listen: Address, server: "Server") -> "HttpServer":
    from askd.gateway.app import create_app
    from askd.gateway.server import HttpServer, ListenError
    from askd.gateway.settings import GatewaySettings
    from askd.store.database import StartError

    app = create_app(f"unix:{server.socket}", GatewaySettings(cors_origins=settings.http.cors_origins))
    http = HttpServer(app, listen, settings.tls)
    try:
        await http.start()
    except ListenError as error:
        await app.close()
        raise StartError(str(error)) from error
    return http


async def _drain(server: "Server", http: "HttpServer | None") -> None:
    """HTTP first, as far as it is quick, so that its requests still find the server; both within ten seconds."""
    stopping = asyncio.create_task(http.stop()) if http else None
    if stopping:
        await asyncio.wait([stopping], timeout=HTTP_FIRST)
    await server.drain()
    if stopping:
        await stopping


def _say_ready(grpc: Address, http: Address | None) -> None:
    sys.stdout.write(f"askd ready grpc={grpc} http={http or 'off'}\n")
    sys.stdout.flush()


def _fail(message: str) -> None:
    sys.stderr.write(f"askd: {message}\n")
    raise SystemExit(1)
