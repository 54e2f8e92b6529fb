"""Asks as they are sent: serialized once, for as long as they are among the last."""

from askd.domain.asks import Ask
from askd.server.convert import fill_ask
from askd.v1 import ask_service_pb2 as pb

#: Asks that are kept, and the bytes of the largest.
MOST = 1024
LARGEST = 8 * 1024


class States:
    """Every response of AskService has its asks in the field 1, so what is serialized is good for all of them; and
    serialized messages that stand one after another are their merge, so a page is the bytes of its asks in a row."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Ask, bytes]] = {}

    def encode(self, ask: Ask) -> bytes:
        """A response with an ask."""
        known = self._known.get(ask.id)
        if known is not None and known[0] is ask:
            return known[1]
        encoded = _serialize(ask)
        self._known.pop(ask.id, None)
        if len(encoded) <= LARGEST:
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[ask.id] = ask, encoded
        return encoded


def receipt(ask: Ask) -> bytes:
    """A response with an ask without its questions."""
    return _serialize(ask, questions=False)


def _serialize(ask: Ask, *, questions: bool = True) -> bytes:
    response = pb.GetAskResponse()
    fill_ask(response.ask, ask, questions=questions)
    return response.SerializeToString()
