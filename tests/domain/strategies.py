"""Legal JSON, questions and submissions of every shape that the contract allows, within its limits."""

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from askd.domain.answers import ChoiceSubmission, Submission
from askd.domain.limits import JSON_INTEGER
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, Part, Question, TextPart, TextQuestion, to_json
from askd.domain.text import is_blank

#: How many times as many examples are tried: `make soak` sets more.
MORE = float(os.environ.get("ASKD_EXAMPLES", "0.5"))


def examples(count: int) -> settings:
    """The same examples in every run, and no clock that a slow machine could fail."""
    return settings(max_examples=int(count * MORE), derandomize=True, deadline=None, database=None)


# Where JSON encoders disagree: escapes, line separators, the ends of plane 0, combining marks and what lies beyond.
_ODD_CHARACTERS = '\x00\x1f"\\/\x7f\x85\u2028\u2029\u0301\u200b\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff'

characters = st.one_of(st.characters(codec="utf-8"), st.sampled_from(_ODD_CHARACTERS))


def texts(max_bytes: int, min_size: int = 0) -> st.SearchStrategy[str]:
    """Texts of at most so many UTF-8 bytes."""
    return st.text(characters, min_size=min_size, max_size=max_bytes // 4)


# Where Python and ECMAScript spell floats differently, or nearly do.
ODD_FLOATS = (
    -0.0, 1.0, -1.0, 1e-3, 1.5e-4, 1e-4, 9.9e-5, 1e-5, 1e-6, 9.999999999999997e-7, 1e-7, -1.5e-7, 5e-324, 1e15,
    0.1 + 0.2, 4503599627370495.5, 333333333.3333332, 9007199254740991.0, -9007199254740991.0,
)  # fmt: skip

integers = st.integers(-JSON_INTEGER, JSON_INTEGER)
floats = st.one_of(
    st.floats(-JSON_INTEGER, JSON_INTEGER, allow_nan=False), st.floats(-0.001, 0.001), st.sampled_from(ODD_FLOATS)
)
scalars: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), integers, floats, texts(40))
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(24), inner, max_size=4), max_leaves=10
)

_parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=texts(200)), st.builds(JsonPart, value=json_values)
)
_prompts = st.lists(_parts, max_size=3).map(tuple)
_titles = st.none() | texts(120, min_size=1).filter(lambda text: not is_blank(text))
_options = st.builds(
    Option, id=texts(32, min_size=1), label=texts(60), value=json_values, description=st.none() | texts(80)
)

text_questions = st.builds(TextQuestion, prompt=_prompts, title=_titles)
choice_questions = st.builds(
    ChoiceQuestion,
    prompt=_prompts,
    title=_titles,
    options=st.lists(_options, min_size=1, max_size=4, unique_by=lambda option: option.id).map(tuple),
    multiple=st.booleans(),
    allow_custom=st.booleans(),
    allow_notes=st.booleans(),
)
questions: st.SearchStrategy[Question] = st.one_of(text_questions, choice_questions)
question_lists = st.lists(questions, min_size=1, max_size=3)

# Texts of exactly 8 KiB with their quotes: what costs most in the answer, of one, two, four and six bytes a character.
FULL_FREE_TEXTS = ("x" * 8190, "é" * 4095, "\U0001f600" * 2047 + "xx", "\x00" * 1365)
free_texts = st.one_of(texts(60, min_size=1), st.sampled_from([*FULL_FREE_TEXTS, " ", "\u2003"]))


@st.composite
def submissions_for(draw: st.DrawFn, question: Question) -> Submission:
    """A valid submission to a question."""
    if isinstance(question, TextQuestion):
        return draw(texts(400) | st.just("x" * 65_534))
    custom = draw(free_texts) if question.allow_custom and draw(st.booleans()) else None
    notes = draw(free_texts) if question.allow_notes and draw(st.booleans()) else None
    ids = draw(st.permutations([option.id for option in question.options]))
    most, least = len(ids), 0 if custom is not None else 1
    if not question.multiple:
        most = least
    return ChoiceSubmission(selected_ids=tuple(ids[: draw(st.integers(least, most))]), custom=custom, notes=notes)


@st.composite
def answered(draw: st.DrawFn) -> tuple[list[Question], list[Submission]]:
    """Questions with valid submissions to them."""
    asked = draw(question_lists)
    return asked, [draw(submissions_for(question)) for question in asked]


# --- what is no question, or nearly one ---

_LONE_SURROGATES = st.sampled_from(["\ud800", "a\udfff", "\udc00\ud800"])
_junk: st.SearchStrategy[Any] = st.one_of(
    json_values,
    _LONE_SURROGATES,
    st.sampled_from(
        [float("nan"), float("inf"), 2.0**53, 2**53, 10**400, "text", "json", "choice", (), b"bytes", {1: 2}]
    ),
    st.dictionaries(_LONE_SURROGATES, st.none(), min_size=1, max_size=1),
)


_KEYS = ("title", "prompt", "options", "multiple", "value", "text", "description", "extra", "", "\ud800", 5)


@st.composite
def question_like(draw: st.DrawFn) -> Any:
    """Questions as JSON data with up to two faults in them."""
    question: Any = to_json(draw(questions))
    for _ in range(draw(st.integers(0, 2))):
        _damage(draw, draw(st.sampled_from(_containers(question))))
    return draw(_junk) if draw(st.integers(0, 40)) == 0 else question


def _damage(draw: st.DrawFn, container: Any) -> None:
    """Replace, remove or add something in an array or object."""
    steps = list(range(len(container))) if isinstance(container, list) else [*container, *_KEYS]
    step = draw(st.sampled_from(steps or [0]))
    if isinstance(container, list):
        container[step : step + 1] = draw(st.lists(_junk, max_size=2))
    elif draw(st.integers(0, 3)) == 0:
        container.pop(step, None)
    else:
        container[step] = draw(_junk)


def _containers(value: Any) -> list[Any]:
    """The arrays and objects of a value, itself among them."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [] if items is None else [value, *(inner for item in items for inner in _containers(item))]


def is_legal(value: object) -> bool:
    """A reading of the contract's rules for JSON values that is apart from the code's."""
    match value:
        case None | bool():
            return True
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case int() | float():
            return -JSON_INTEGER <= value <= JSON_INTEGER
        case list():
            return all(map(is_legal, value))
        case dict():
            return all(isinstance(key, str) and is_legal(key) and is_legal(item) for key, item in value.items())
    return False
