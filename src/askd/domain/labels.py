"""Answers in the words that people and models use: the labels of options, or a text of their own (CONTRACT section 7).

What is read here of questions and options, domain objects and messages have alike.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Protocol

from askd.domain.answers import ChoiceSubmission, Submission, answer_invalid
from askd.domain.questions import ChoiceQuestion, Question

#: Characters of a label that a message quotes.
_QUOTED = 100


class Labelled(Protocol):
    """An option."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...


class Choice(Protocol):
    """A choice question."""

    @property
    def options(self) -> Sequence[Labelled]: ...
    @property
    def allow_custom(self) -> bool: ...


class Labels:
    """The options of a question by what they may be called."""

    def __init__(self, options: Sequence[Labelled]) -> None:
        self._exact = _by_label((option.label, option.id) for option in options)
        self._normal = _by_label((_normalize(option.label), option.id) for option in options)
        # Ids tell options apart where labels do not, and are no names elsewhere.
        repeat = len(self._normal) < len(options)
        self._ids = frozenset(option.id for option in options) if repeat else frozenset()

    def find(self, text: str) -> Sequence[str]:
        """The ids of the options that a text may mean: those with that label, else those whose label equals it under
        Unicode NFC, else the one with that id where labels repeat."""
        found = self._exact.get(text) or self._normal.get(_normalize(text))
        return found or ([text] if text in self._ids else [])

    def name(self, option: Labelled) -> str:
        """What to call an option so that nothing else is meant: its label, or its id where others bear the label."""
        return option.label if self.find(option.label) == [option.id] else option.id


def _by_label(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for label, identifier in pairs:
        grouped.setdefault(label, []).append(identifier)
    return grouped


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def submission(texts: Sequence[str], question: Question, index: int) -> Submission:
    """The submission that texts mean for the question at an index; texts that mean none are answer_invalid."""
    return choose(texts, question, index) if isinstance(question, ChoiceQuestion) else free_text(texts, index)


def free_text(texts: Sequence[str], index: int) -> str:
    """The one text that answers in own words; none, or more than one, is answer_invalid."""
    _require_any(texts, index)
    if len(texts) > 1:
        raise answer_invalid(index, "at most one answer may be in the person's own words")
    return texts[0]


def choose(texts: Sequence[str], choice: Choice, index: int) -> ChoiceSubmission:
    """The submission that texts mean for a choice: options by name, and at most one text that names none as the custom
    answer. A name of several options, a custom answer where none is allowed and no text at all are answer_invalid."""
    _require_any(texts, index)
    selected, rest = _select(texts, Labels(choice.options), index)
    custom = free_text(rest, index) if rest else None
    if custom is not None and not choice.allow_custom:
        raise answer_invalid(index, f"{_quote(custom)} is no option")
    return ChoiceSubmission(selected_ids=tuple(selected), custom=custom)


def _require_any(texts: Sequence[str], index: int) -> None:
    if not texts:
        raise answer_invalid(index, "at least one label is required")


def _select(texts: Sequence[str], labels: Labels, index: int) -> tuple[list[str], list[str]]:
    """The ids that texts select, and the texts that select nothing."""
    selected: list[str] = []
    rest: list[str] = []
    for text in texts:
        found = labels.find(text)
        if len(found) > 1:
            raise answer_invalid(index, f"several options are called {_quote(text)}; name the option by its id")
        (selected if found else rest).extend(found or [text])
    return selected, rest


def _quote(text: str) -> str:
    """A text as part of one line."""
    shown = text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"
    return f'"{repr(shown)[1:-1]}"'
