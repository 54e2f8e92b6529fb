"""The options that commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Status(StrEnum):
    """The states that lists and watches filter by."""

    PENDING = "pending"
    ANSWERED = "answered"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


def span(text: str) -> float:
    """Seconds of a text such as 90, 1.5s, 10m, 2h or 7d."""
    number = text.rstrip("smhd")
    try:
        return float(number) * _SECONDS[text[len(number) :]]
    except (ValueError, KeyError):
        raise typer.BadParameter(f"{text!r} is no span of time; write 90, 90s, 10m, 2h or 7d") from None


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
AskId = Annotated[str, typer.Argument(metavar="ASK_ID", help="The ask: que_…")]
Session = Annotated[str, typer.Option(metavar="ID", help="Only asks of this session.")]
Turn = Annotated[str, typer.Option(metavar="ID", help="Only asks of this turn.")]
Statuses = Annotated[list[Status] | None, typer.Option("--status", help="Only asks in this state; repeatable.")]
CertificateAuthority = Annotated[
    Path | None,
    typer.Option("--ca", envvar="ASKD_CA", metavar="FILE", help="Call over TLS and trust these certificates, PEM."),
]
WaitTimeout = Annotated[
    float | None, typer.Option("--timeout", parser=span, metavar="SPAN", help="Wait at most this long: 90, 10m, 2h.")
]
ExpiresIn = Annotated[
    float | None, typer.Option("--expires-in", parser=span, metavar="SPAN", help="Such as 90, 10m, 2h, 7d.")
]
