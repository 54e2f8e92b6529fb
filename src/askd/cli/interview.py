"""Taking an answer from the person at the terminal."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from rich.console import Console

from askd.cli import views
from askd.v1 import ask_pb2 as pb

Read: TypeAlias = Callable[[str], str]

OWN = "c"  # chosen like a number, for an answer in own words


def read_line(prompt: str) -> str:
    """A line from the terminal, with editing. EOFError at the end of the input."""
    with suppress(ImportError):
        import readline  # noqa: F401  # input() uses it from then on
    while True:
        try:
            return input(prompt)
        except UnicodeDecodeError:
            print("That is no text in this terminal's encoding.")


def interview(ask: pb.AskState, output: Console, read: Read = read_line) -> list[object]:
    """The submissions of a person who is shown the questions of an ask, as JSON data."""
    output.print(views.details(ask))
    submissions: list[object] = []
    for index, question in enumerate(ask.questions):
        output.print()
        views.show_question(output, question, index, len(ask.questions))
        submissions.append(_choice(question.choice, read) if question.HasField("choice") else _text(read))
    return submissions


def _text(read: Read) -> str:
    # An answer is for good, so an empty one is not sent for a slip of the finger.
    while not (text := read("Answer: ")):
        if read("Send an empty answer? [y/N] ").strip().lower() in ("y", "yes"):
            break
    return text


def _choice(choice: pb.ChoiceQuestion, read: Read) -> dict[str, object]:
    invitation = _invitation(choice)
    while (picked := _picked(read(f"{invitation}: "), choice)) is None:
        print("That is no such choice.")
    numbers, own = picked
    fields: dict[str, object] = {"selectedIds": [choice.options[number].id for number in numbers]}
    if own:
        fields["custom"] = _nonempty(read, "Your own answer: ")
    if choice.allow_notes and (notes := read("Notes (Enter for none): ")):
        fields["notes"] = notes
    return fields


def _invitation(choice: pb.ChoiceQuestion) -> str:
    last = len(choice.options)
    numbers = "1" if last == 1 else f"1-{last}"
    own = f", or {OWN} for your own answer" if choice.allow_custom else ""
    return f"Choose any of {numbers}, with spaces between{own}" if choice.multiple else f"Choose {numbers}{own}"


def _picked(typed: str, choice: pb.ChoiceQuestion) -> tuple[list[int], bool] | None:
    """The indexes of the options typed, and whether an own answer was; None where that is no such choice."""
    words = [word.lower() for word in re.split(r"[,\s]+", typed) if word]
    own = choice.allow_custom and OWN in words
    numbers = [word for word in words if not (own and word == OWN)]
    if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= len(choice.options) for word in numbers):
        return None
    indexes = sorted({int(word) - 1 for word in numbers})
    enough = (indexes or own) if choice.multiple else len(indexes) + own == 1
    return (indexes, own) if enough else None


def _nonempty(read: Read, prompt: str) -> str:
    while not (text := read(prompt)):
        print("It must not be empty.")
    return text
