"""Opening and ending sessions and turns (CONTRACT section 4)."""

import asyncio
from collections.abc import Sequence

from askd.domain.principals import Access, Role
from askd.domain.sessions import EndSession, EndTurn, OpenSession, Session, Turn, TurnOutcome
from askd.domain.values import value
from askd.service.sweeper import Sweeper
from askd.store.batch import Outcome
from askd.store.queries import load_unjoined
from askd.store.reader import Reader
from askd.store.writer import Writer


@value
class EndedTurn:
    """How a turn ended, and the asks that were left unjoined: the first ids, and how many."""

    outcome: TurnOutcome
    unjoined: Sequence[str]
    unjoined_count: int


class Sessions:
    """The use cases of SessionService. Every method raises AskdError."""

    def __init__(self, writer: Writer, reader: Reader, sweeper: Sweeper) -> None:
        self._writer = writer
        self._reader = reader
        self._sweeper = sweeper

    async def open_session(self, access: Access, session_id: str, parent_session_id: str | None) -> None:
        """Declare a session."""
        access.require(Role.ASKER, session_id)
        command = OpenSession(access=access, session_id=session_id, parent_session_id=parent_session_id)
        await self._writer.submit(command)

    async def end_session(self, access: Access, session_id: str) -> None:
        """End a session. Its end is committed before its asks are cancelled; a caller that leaves early leaves that to
        go on."""
        access.require(Role.ASKER, session_id)
        outcome = await self._writer.submit(EndSession(access=access, session_id=session_id))
        await self._finish(outcome)

    async def end_turn(self, access: Access, session_id: str, turn_id: str, wanted: TurnOutcome) -> EndedTurn:
        """End a turn, as end_session() does."""
        access.require(Role.ASKER, session_id)
        command = EndTurn(access=access, session_id=session_id, turn_id=turn_id, outcome=wanted)
        outcome = await self._writer.submit(command)
        turn = await self._finish(outcome)
        assert isinstance(turn, Turn), "ending a turn tells how it ended"  # noqa: S101
        unjoined = outcome.unjoined
        if turn.unjoined_count and not unjoined:  # told again
            unjoined = await self._reader.read(lambda connection: load_unjoined(connection, turn))
        return EndedTurn(outcome=turn.outcome or wanted, unjoined=unjoined, unjoined_count=turn.unjoined_count)

    async def _finish(self, outcome: Outcome) -> Session | Turn:
        assert outcome.end is not None, "an end tells what ended"  # noqa: S101
        if outcome.end.ending:
            await asyncio.shield(self._sweeper.start_finishing(outcome.end))
        return outcome.end
