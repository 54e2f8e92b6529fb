"""The audit log: one JSON line for every change, accepted or refused; no payload and no secret is in it."""

import json
import logging
import queue
import sys
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path

#: The methods that change something.
CHANGES = frozenset({
    "Ask", "AnswerAsk", "RejectAsk", "CancelAsk", "OpenSession", "EndTurn", "EndSession", "CreateKey", "RevokeKey",
    "GrantRole", "RevokeRole",
})  # fmt: skip


class Audit:
    """Writes lines from a thread of its own, so that a slow disk keeps nobody waiting."""

    def __init__(self, target: str) -> None:
        """`target` is a file to append to, or "stderr". Raises OSError."""
        handler = logging.StreamHandler(sys.stderr) if target == "stderr" else _file(Path(target))
        handler.setFormatter(logging.Formatter("%(message)s"))
        lines: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        self._listener = QueueListener(lines, handler)
        self._handler = handler
        self._logger = logging.Logger("askd.audit", logging.INFO)
        self._logger.addHandler(QueueHandler(lines))
        self._listener.start()

    def record(self, *, principal: str, action: str, ask: str, outcome: str, peer: str) -> None:
        """Add a line. `outcome` is ok or the code of the refusal."""
        time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        line = {"time": time, "principal": principal, "action": action, "outcome": outcome, "peer": peer}
        self._logger.info("%s", json.dumps(line | ({"ask": ask} if ask else {})))

    def close(self) -> None:
        """Write what waits."""
        self._listener.stop()
        self._handler.close()


def _file(path: Path) -> logging.Handler:
    return logging.FileHandler(path, encoding="utf-8")
