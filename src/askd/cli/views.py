"""Asks as people read them."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Table
from rich.text import Text

from askd.cli.terminal import block, excerpt, line
from askd.v1 import ask_pb2 as pb
from askd.wire import values
from askd.wire.json import word

PROMPT_LENGTH = 80  # characters of a prompt in lists and events
_NAME_LENGTH = 24  # characters of a session in lists and events
_ID_WIDTH, _STATUS_WIDTH, _AGE_WIDTH = 30, 9, 4  # columns of a list
_LEAST_WIDTH = 8  # columns of a session or a question, however narrow the terminal
_TEN = 10  # options from which on numbers have two digits
_STYLES = {"pending": "yellow", "asked": "yellow", "answered": "green", "rejected": "red", "cancelled": "bright_black"}


def status_of(ask: pb.AskState) -> str:
    """The state of an ask as a word."""
    return word(pb.AskStatus.Name(ask.status), "ASK_STATUS_")


def reason_of(ask: pb.AskState) -> str:
    """Why an ask was rejected or cancelled, or nothing."""
    if ask.cancel_reason:
        return word(pb.CancelReason.Name(ask.cancel_reason), "CANCEL_REASON_").replace("_", " ")
    return ask.reject_reason


def resolved_at(ask: pb.AskState) -> Timestamp | None:
    """When an ask was resolved."""
    present = {field.name: value for field, value in ask.ListFields()}
    return next((present[name] for name in ("answered_at", "rejected_at", "cancelled_at") if name in present), None)


def styled(name: str) -> Text:
    """A state or an event's type in its colour."""
    return Text(name, style=_STYLES.get(name, ""))


def local_time(moment: Timestamp) -> str:
    """A time on this machine's clock, to the second."""
    return datetime.fromtimestamp(moment.seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def prompt(question: pb.Question) -> str:
    """A question's prompt, a part after the other, JSON as indented text."""
    return "\n".join(_part(part) for part in question.prompt)


def _part(part: pb.ContentPart) -> str:
    if part.WhichOneof("part") == "text":
        return part.text
    return json.dumps(values.from_proto(part.json, "value"), indent=2, ensure_ascii=False)


def summary(ask: pb.AskState) -> str:
    """The first question in one short line, and how many more there are."""
    if not ask.questions:
        return "(payload expired)" if ask.payload_expired else ""
    first = ask.questions[0]
    text = excerpt(f"{first.title}: {prompt(first)}" if first.title else prompt(first), PROMPT_LENGTH)
    return f"{text} (+{len(ask.questions) - 1})" if len(ask.questions) > 1 else text


def answer(given: pb.Answer, question: pb.Question | None) -> str:
    """An answer in words: its text, or the selected labels, the custom answer and the notes, a line each."""
    if given.WhichOneof("kind") == "text":
        return given.text
    labels = {option.id: option.label for option in question.choice.options} if question else {}
    lines = [labels.get(selection.id) or selection.id for selection in given.choice.selected]
    lines += [given.choice.custom] if given.choice.HasField("custom") else []
    lines += [f"notes: {given.choice.notes}"] if given.choice.HasField("notes") else []
    return "\n".join(lines)


def answers(ask: pb.AskState) -> list[str]:
    """The answers of an ask in words, in order."""
    # A receipt has answers without questions, a pending ask questions without answers.
    questions: Sequence[pb.Question | None] = ask.questions or [None] * len(ask.answers)
    return [answer(given, question) for given, question in zip(ask.answers, questions, strict=False)]


def page(asks: Iterable[pb.AskState], *, header: bool, width: int, now: datetime) -> Table:
    """A page of a list. Its columns are as wide as those of the next page; an id is never cut."""
    table = Table(box=None, show_header=header, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    rest = max(width - _ID_WIDTH - _STATUS_WIDTH - _AGE_WIDTH - 8, 2 * _LEAST_WIDTH)
    session = min(_NAME_LENGTH, rest // 3)
    for name, columns in (("ask", _ID_WIDTH), ("status", _STATUS_WIDTH), ("age", _AGE_WIDTH)):
        table.add_column(name, min_width=columns, no_wrap=True)
    table.add_column("session", width=session, no_wrap=True, overflow="ellipsis")
    table.add_column("question", width=rest - session, no_wrap=True, overflow="ellipsis")
    for ask in asks:
        texts = (age(ask.created_at, now), line(ask.session_id), summary(ask))
        table.add_row(Text(ask.id), styled(status_of(ask)), *map(Text, texts))
    return table


def age(moment: Timestamp, now: datetime) -> str:
    """The time since a moment in its largest unit: 5s, 3m, 2h or 40d."""
    seconds = max(0, int(now.timestamp()) - moment.seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def fields(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values under each other; empty values are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(Text(name), value if isinstance(value, Text) else Text(line(value)))
    return table


def resolution(ask: pb.AskState) -> Text:
    """What became of an ask, in one line."""
    return Text.assemble(styled(status_of(ask)), f"  {ask.id}")


def details(ask: pb.AskState) -> Table:
    """What is known of an ask beside its questions."""
    resolved = resolved_at(ask)
    return fields(
        [
            ("ask", ask.id),
            ("status", styled(status_of(ask))),
            ("reason", reason_of(ask)),
            ("workspace", ask.workspace_id),
            ("session", ask.session_id),
            ("turn", ask.turn_id),
            ("created", _event(ask.created_at, ask.asked_by_user_id, ask.asked_by_api_key_id)),
            ("expires", local_time(ask.expires_at) if ask.HasField("expires_at") else ""),
            ("resolved", _event(resolved, ask.resolved_by_user_id, ask.resolved_by_api_key_id) if resolved else ""),
            ("tool", f"{ask.tool.message_id} {ask.tool.call_id}" if ask.HasField("tool") else ""),
            ("payload", "expired" if ask.payload_expired else ""),
        ]
    )


def _event(moment: Timestamp, user: str, key: str) -> str:
    return f"{local_time(moment)} by {user or key}" if user or key else local_time(moment)


def show_question(output: Console, question: pb.Question, index: int, total: int) -> None:
    """Print a question, its options numbered from 1."""
    heading = f"Question {index + 1} of {total}" if total > 1 else "Question"
    title = f"{heading}: {line(question.title)}" if question.title else heading
    output.print(Text(title, style="bold"), soft_wrap=True)
    output.print(Text(block(prompt(question))), soft_wrap=True)
    if question.HasField("choice"):
        output.print(options(question.choice))


def options(choice: pb.ChoiceQuestion) -> Table:
    """The options of a choice question, numbered from 1."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="cyan", min_width=3 if len(choice.options) < _TEN else 5)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", style="bright_black")
    for number, option in enumerate(choice.options, start=1):
        table.add_row(str(number), Text(line(option.label)), Text(line(option.description)))
    return table


def event(told: pb.AskEvent) -> Text:
    """An event in one line."""
    kind = word(pb.AskEventType.Name(told.type), "ASK_EVENT_TYPE_")
    ask = told.ask
    moment = local_time(resolved_at(ask) or ask.created_at)
    about = f"  {ask.id}  {excerpt(ask.session_id, _NAME_LENGTH)}  {summary(ask)}"
    outcome = "; ".join(answers(ask)).replace("\n", "; ") or reason_of(ask)
    tail = f"  → {excerpt(outcome, PROMPT_LENGTH)}" if outcome else ""
    return Text.assemble((moment, "bright_black"), "  ", (f"{kind:<9}", _STYLES.get(kind, "")), about, tail)


def given(text: str) -> Text:
    """An answer below its question."""
    return Text.assemble(("→ ", "green"), block(text).replace("\n", "\n  "))


def synced(revision: int | None) -> Text:
    """That all that was past has been told."""
    return Text(f"— all up to revision {revision}; now live —", style="bright_black")
