"""`askd gateway`: the gateway alone, in front of any askd server."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from askd.config import Address
from askd.gateway.app import create_app
from askd.gateway.server import HttpServer
from askd.gateway.settings import GatewaySettings


async def run_gateway(
    upstream: str, listen: Address, cors_origins: Sequence[str] = (), root_certificates: Path | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, saying `askd gateway ready http=HOST:PORT` once the address is listened on.

    `upstream` is HOST:PORT of the server, called in plain text unless `root_certificates` names a file of PEM
    certificates to trust. Raises ListenError, and OSError for a file that cannot be read.
    """
    certificates = root_certificates.read_bytes() if root_certificates else None  # noqa: ASYNC240 # nothing else runs yet
    settings = GatewaySettings(cors_origins=tuple(cors_origins), root_certificates=certificates)
    server = HttpServer(create_app(upstream, settings), listen)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.start()
    try:
        sys.stdout.write(f"askd gateway ready http={server.address}\n")
        sys.stdout.flush()
        await stopped.wait()
    finally:
        await server.stop()
