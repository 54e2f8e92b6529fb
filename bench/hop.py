"""The bare hop from HTTP to gRPC that the gateway is measured against: `python -m bench.hop`.

FastAPI on uvicorn and the echo of `bench.floors` in one process and on one event loop, as in askd: a request calls the
echo over a channel and returns what it says.
"""

import socket

import grpc
import uvicorn
import uvloop
from fastapi import FastAPI, Response

from bench import floors, requests
from bench.floors import Floor, handlers


def app(channel: grpc.aio.Channel) -> FastAPI:
    echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(floors.ECHO)
    body = requests.ask("text", 0)
    application = FastAPI(openapi_url=None)

    @application.get("/echo")
    async def hop() -> Response:
        return Response(await echo(body), media_type="application/json")

    return application


async def serve() -> None:
    server = grpc.aio.server(options=floors.OPTIONS)
    server.add_generic_rpc_handlers([handlers(Floor())])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        listener = socket.create_server(("127.0.0.1", 0))
        print(f"hop ready grpc={address} http=127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app(channel), http="httptools", log_config=None, access_log=False)
        await uvicorn.Server(config).serve([listener])  # until SIGTERM
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(serve())
