"""How much is measured, and what the processes of one run tell each other."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The size of a run. Every measure is bounded by it in count or in time."""

    pairs: int
    """How often base and askd take turns in a throughput measure."""
    seconds: float
    """How long one slice of it lasts."""
    rounds: int
    """How often base and askd take turns in a latency measure."""
    calls: int
    """How many calls or cycles one slice of it has. The small store has pending asks for 500 answers."""
    starts: int
    """How often a server is started on an empty folder."""
    watchers: int
    """How many streams are open at once."""
    stored: int
    """How many asks the large store holds."""
    ended: int
    """How many pending asks the session has that ends while others ask and answer."""
    due: int
    """How many asks expire at once while others ask and answer."""
    idle: int
    """How many idle waits and watches there are at once."""
    pending: int
    """How many pending asks a watcher joins."""
    question: Literal["text", "choice"] = "text"
    """The kind of the 1 KB question."""

    smoke: bool = False
    """Whether the run only proves that every measure works; its figures mean little."""

    def describe(self) -> dict[str, Any]:
        return asdict(self)


FULL = Plan(
    pairs=7,
    seconds=1.5,
    rounds=21,
    calls=20,
    starts=5,
    watchers=1000,
    stored=1_000_000,
    idle=10_000,
    pending=100_000,
    ended=20_000,
    due=100_000,
)
# The same sizes, fewer pairs: what `--check` compares.
BRIEF = replace(FULL, pairs=3, seconds=1.0, rounds=9, starts=3)
QUICK = Plan(
    pairs=2,
    seconds=0.2,
    rounds=2,
    calls=5,
    starts=1,
    watchers=50,
    stored=4_000,
    idle=100,
    pending=2_000,
    ended=500,
    due=500,
    smoke=True,
)
# What the small store holds, and one session of either.
FEW_STORED = 1_000
SESSION_SIZE = 100

SERVERS = ("base", "askd", "floor")


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A server that was started."""

    address: str
    pid: int
    seconds: float
    """From the start of the process to its ready line."""
    http: str = ""
    """Where it serves HTTP, if it does."""
    credential: str = ""
    stored: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What the client process is to measure: `askd` against `base`."""

    measure: str
    plan: Plan
    base: Endpoint
    askd: Endpoint
    folder: str
    """Where files may be written; on the disk that askd writes to."""
    floor: Endpoint | None = None
    """The bare server, where the base is another askd."""

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Self:
        fields: dict[str, Any] = json.loads(text)
        plan = Plan(**fields.pop("plan"))
        servers = {name: Endpoint(**server) for name in SERVERS if (server := fields.pop(name))}
        return cls(plan=plan, **(fields | servers))
