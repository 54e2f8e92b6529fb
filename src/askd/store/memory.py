"""What a writer that has its database to itself remembers, so as not to read it again at each batch."""

from threading import Lock

from askd.domain.sessions import Session, Turn

SessionKey = tuple[str, str]
TurnKey = tuple[str, str, str]

#: Sessions, turns and workspaces that are remembered together.
MOST = 10_000


class Memory:
    """Workspaces' revisions, and sessions and turns that have not ended, as the last batch left them.

    Batches use it one after another, each in its transaction. What one leaves here counts once its commit is confirmed:
    a batch that begins before, because the one in front of it failed or may have, finds it empty.
    """

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self.sessions: dict[SessionKey, Session] = {}
        self.turns: dict[TurnKey, Turn] = {}
        self._unconfirmed: object = None
        self._lock = Lock()

    def begin(self, batch: object) -> None:
        """Begin a batch, which confirm() is told of."""
        with self._lock:
            if self._unconfirmed is not None or len(self.revisions) + len(self.sessions) + len(self.turns) > MOST:
                self._forget()
            self._unconfirmed = batch

    def confirm(self, batch: object) -> None:
        """Say that a batch was committed; from any thread."""
        with self._lock:
            if self._unconfirmed is batch:
                self._unconfirmed = None

    def keep_session(self, key: SessionKey, session: Session) -> None:
        """Remember a session. Those that have ended are looked up: others finish their ends."""
        if session.ended_at is None:
            self.sessions[key] = session
        else:
            self.sessions.pop(key, None)

    def keep_turn(self, key: TurnKey, turn: Turn) -> None:
        """Remember a turn, in the same way."""
        if turn.outcome is None:
            self.turns[key] = turn
        else:
            self.turns.pop(key, None)

    def _forget(self) -> None:
        self.revisions.clear()
        self.sessions.clear()
        self.turns.clear()
