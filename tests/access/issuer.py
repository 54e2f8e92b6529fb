"""An issuer of user tokens: keys, tokens, and a key set in a file or over HTTP."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "askd"


class Issuer:
    """Signs tokens with its newest key and publishes those that it still stands by."""

    def __init__(self) -> None:
        self._keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.rotate()

    def rotate(self, *, keep: bool = True) -> None:
        """Make a new key, and forget the others where they are not kept."""
        if not keep:
            self._keys.clear()
        self.newest = f"k{time.monotonic_ns()}"
        self._keys[self.newest] = ec.generate_private_key(ec.SECP256R1())

    def key_set(self) -> dict[str, Any]:
        return {"keys": [self._published(name) for name in self._keys]}

    def _published(self, name: str) -> dict[str, Any]:
        key = ECAlgorithm.to_jwk(self._keys[name].public_key(), as_dict=True)
        return {**key, "kid": name, "alg": "ES256", "use": "sig"}

    def token(
        self, subject: str = "ada", *, without: str = "", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token that is good but for what a test says of it."""
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": time.time() + 300, "iat": time.time()} | claims
        said.pop(without, None)
        named = {"kid": self.newest} | (headers or {})
        return jwt.encode(said, self._keys[self.newest], algorithm="ES256", headers=named)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.fetches += 1
        body = json.dumps(server.issuer.key_set()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def published(issuer: Issuer) -> Iterator[Any]:
    """The issuer's key set over HTTP on loopback; `fetches` counts."""
    server: Any = HTTPServer(("127.0.0.1", 0), _Handler)
    server.issuer, server.fetches = issuer, 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
