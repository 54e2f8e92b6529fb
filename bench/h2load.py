"""h2load, a client in C: where it is installed, calls at full speed are measured by it too, since a client in Python
takes as much of a call as the server does. On Debian it is in the package nghttp2-client."""

import asyncio
import re
import shutil
from pathlib import Path

from bench.processes import BenchError

PROGRAM = shutil.which("h2load")
ABSENT = "h2load is not installed (Debian: nghttp2-client), so nothing was measured by a client in C"
HEADERS = ("content-type: application/grpc", "te: trailers")


async def calls_per_second(
    address: str, path: str, body: bytes, credential: str, *, concurrent: int, seconds: float, folder: Path
) -> float:
    """How many calls complete a second on one connection, `concurrent` at a time, all with the same request."""
    frame = folder / "frame"
    frame.write_bytes(b"\0" + len(body).to_bytes(4, "big") + body)
    headers = [part for header in (*HEADERS, f"authorization: Bearer {credential}") for part in ("-H", header)]
    sizes = ["-c", "1", "-t", "1", "-m", str(concurrent), "-D", f"{seconds * 1000:.0f}ms"]
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *sizes, *headers, "--data", str(frame), f"http://{address}{path}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return rate_in(output.decode(), len(body))


def rate_in(output: str, least_bytes: int) -> float:
    """The rate that h2load wrote. BenchError where calls failed: gRPC answers these with HTTP status 200 too, but
    without the data that a response has."""
    rate = re.search(r"([\d.]+) req/s", output)
    counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", output)
    data = re.search(r"\((\d+)\) data", output)
    if rate is None or counts is None or data is None:
        raise BenchError(f"h2load wrote no figures:\n{output}")
    done, succeeded, failed, errored = map(int, counts.groups())
    if done != succeeded or failed or errored or int(data[1]) < done * least_bytes:
        raise BenchError(f"calls of h2load failed:\n{output}")
    return float(rate[1])
