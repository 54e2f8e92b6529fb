"""Asks and pages as of the last commit, for a server that has its database to itself.

Whatever a batch is about to change is dropped before, and what it did is put in once it is committed; so an ask that is
here is as the database has it, and one that is not is read there.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from askd.domain.asks import Ask, AskFilter, AskStatus, CancelAsks, CreateAsk, ResolveAsk
from askd.domain.sessions import Command, workspace_of
from askd.store.queries import Page

#: Bytes of payload, as JSON, that are kept in all, and that an ask may have to be kept.
BYTES = 8 * 1024 * 1024
LARGEST = 64 * 1024
#: Workspaces whose pages are kept, pages of each, and bytes of payload that a page may have to be kept.
WORKSPACES = 16
PAGES = 64
LARGEST_PAGE = 16 * 1024

#: What a page is of: see load_page().
PageKey = tuple[AskFilter, int, int]


class AskCache:
    """The asks used lately."""

    def __init__(self) -> None:
        self._asks: OrderedDict[str, Ask] = OrderedDict()
        self._bytes = 0
        #: What writes under way may change.
        self._changing: set[str] = set()
        #: What was dropped since each of the reads under way began.
        self._dropped: list[set[str]] = []
        self._cleared = 0
        self.pages = Pages()

    def get(self, ask_id: str) -> Ask | None:
        """An ask, if it is here."""
        ask = self._asks.get(ask_id)
        if ask is not None:
            self._asks.move_to_end(ask_id)
        return ask

    def peek(self, ask_id: str) -> Ask | None:
        """An ask, if it is here; from any thread."""
        return self._asks.get(ask_id)

    def pending(self, commands: Iterable[Command]) -> dict[str, Ask]:
        """The pending asks here that commands may change. They stay so until one does: call before changing()."""
        found = {ask_id: self._asks.get(ask_id) for ask_id in _touched(commands)}
        return {ask_id: ask for ask_id, ask in found.items() if ask and ask.status is AskStatus.PENDING}

    @contextmanager
    def changing(self, commands: Sequence[Command]) -> Iterator[list[Ask]]:
        """Keeps what commands may change out of here, and takes the asks that are put into the list as committed."""
        ids = set(_touched(commands))
        self._changing |= ids
        self._drop_all(ids)
        committed: list[Ask] = []
        try:
            with self.pages.changing({workspace_of(command) for command in commands}):
                yield committed
        finally:
            self._changing -= ids
            self._drop_all(ids.union(ask.id for ask in committed))
            self._put(committed)

    @contextmanager
    def reading(self) -> Iterator[list[Ask]]:
        """Takes the asks that a read puts into the list, but for those that may have changed since it began."""
        cleared, dropped = self._cleared, set[str]()
        self._dropped.append(dropped)
        found: list[Ask] = []
        try:
            yield found
            if cleared == self._cleared:
                self._put([ask for ask in found if ask.id not in dropped | self._changing])
        finally:
            self._dropped = [each for each in self._dropped if each is not dropped]

    def clear(self) -> None:
        """Drop everything."""
        self._asks.clear()
        self._bytes = 0
        self._cleared += 1
        self.pages.clear()

    def _put(self, asks: Iterable[Ask]) -> None:
        for ask in asks:
            self._drop(ask.id)
            if _size(ask) <= LARGEST:
                self._asks[ask.id] = ask
                self._bytes += _size(ask)
        while self._bytes > BYTES:
            self._drop(next(iter(self._asks)))

    def _drop_all(self, ids: set[str]) -> None:
        for ask_id in ids:
            self._drop(ask_id)
        for dropped in self._dropped:
            dropped |= ids

    def _drop(self, ask_id: str) -> None:
        ask = self._asks.pop(ask_id, None)
        if ask is not None:
            self._bytes -= _size(ask)


class Pages:
    """Small pages read lately, as long as no ask of their workspace changes."""

    def __init__(self) -> None:
        self._known: dict[str, dict[PageKey, Page]] = {}
        #: How many writes that are under way may change a workspace.
        self._changing: Counter[str] = Counter()

    def of(self, workspace_id: str) -> dict[PageKey, Page]:
        """A workspace's pages. What is put in once the workspace may have changed is seen by nobody."""
        if self._changing[workspace_id]:
            return {}
        if workspace_id not in self._known and len(self._known) >= WORKSPACES:
            self._known.clear()
        return self._known.setdefault(workspace_id, {})

    @staticmethod
    def put(pages: dict[PageKey, Page], key: PageKey, page: Page) -> None:
        """Add a page to what of() gave, where it is small."""
        if sum(map(_size, page.asks)) <= LARGEST_PAGE:
            if len(pages) >= PAGES:
                pages.clear()
            pages[key] = page

    @contextmanager
    def changing(self, workspaces: set[str]) -> Iterator[None]:
        """Keeps the pages of workspaces that may change out of here."""
        self._changing.update(workspaces)
        self._drop(workspaces)
        try:
            yield
        finally:
            self._changing -= Counter(workspaces)  # leaves no zeros
            self._drop(workspaces)

    def clear(self) -> None:
        """Drop everything."""
        self._known.clear()

    def _drop(self, workspaces: set[str]) -> None:
        for workspace_id in workspaces:
            self._known.pop(workspace_id, None)


def _touched(commands: Iterable[Command]) -> Iterator[str]:
    for command in commands:
        match command:
            case ResolveAsk() | CreateAsk():
                yield command.ask_id
            case CancelAsks():
                yield from command.ask_ids


def _size(ask: Ask) -> int:
    return len(ask.encoded_questions) + len(ask.encoded_answers) + len(ask.reject_reason or "")
