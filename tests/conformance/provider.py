"""A model's provider for scenarios that consult: what it answers is in the model's name."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADVICE = {"recommendation": ["A"], "reasoning": "A is safer.", "confidence": "high"}
#: The replies of each model: an advice, and what is none.
MODELS = {"good": json.dumps(ADVICE), "confused": json.dumps({"recommendation": ["A"]})}


class _Provider(BaseHTTPRequestHandler):
    """OpenAI's chat completions."""

    def do_POST(self) -> None:  # the library's name
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": MODELS[request["model"]]}
        body = json.dumps({
            "id": "c", "object": "chat.completion", "created": 1, "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 300, "completion_tokens": 100, "total_tokens": 400},
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def providing() -> Iterator[str]:
    """The address of a provider."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Provider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
