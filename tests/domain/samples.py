"""Small questions as JSON data, some of them of an exact size, and the refusals that are expected of them."""

from collections.abc import Callable

import pytest
import rfc8785

from askd.domain.canonical import Json
from askd.domain.errors import AskdError, Code, ContentError
from askd.domain.limits import FREE_TEXT
from askd.domain.parsing import parse_question
from askd.domain.questions import Question

Object = dict[str, Json]

#: A free text of exactly 8 KiB with its quotes.
FULL_TEXT = "x" * (FREE_TEXT - 2)


def encoded_size(value: Json) -> int:
    """The bytes of the canonical JSON, as rfc8785 writes it."""
    return len(rfc8785.dumps(value))


def text_question(**fields: Json) -> Object:
    return {"type": "text", "prompt": [], **fields}


def option(identifier: str = "a", **fields: Json) -> Object:
    return {"id": identifier, "label": "A", "value": None, **fields}


def choice_question(*options: Json, **fields: Json) -> Object:
    return {"type": "choice", "prompt": [], "options": list(options or [option()]), **fields}


def text_part(text: str = "?") -> Object:
    return {"type": "text", "text": text}


def json_part(value: Json) -> Object:
    return {"type": "json", "value": value}


def question_of_size(encoded: int) -> Object:
    """A text question whose canonical JSON has exactly so many bytes."""
    padding = encoded - encoded_size(text_question(prompt=[text_part("")]))
    return text_question(prompt=[text_part("x" * padding)])


def nested(levels: int) -> Json:
    """Arrays and objects in turn around a scalar, so many levels deep."""
    value: Json = 0
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def parsed(*questions: Object) -> list[Question]:
    return [parse_question(question, f"questions[{index}]") for index, question in enumerate(questions)]


def refusal(call: Callable[[], object], code: Code, field: str = "", *said: str | int) -> AskdError:
    """The error that a call ends with, which has a code and a field and says what is expected."""
    with pytest.raises(AskdError) as raised:
        call()
    error = raised.value
    assert (error.code, error.field) == (code, field)
    assert str(error) == error.message
    for fact in said:
        assert str(fact) in error.message
    return error


def located_refusal(call: Callable[[], object], code: Code, field: str, *said: str | int) -> AskdError:
    """A refusal whose message names the path of what is wrong, too."""
    error = refusal(call, code, field, *said)
    assert error.message.startswith(f"{field}: ")
    return error


def content_refusal(call: Callable[[], object], code: Code, field: str, *said: str | int) -> None:
    """A refusal of a question, which has a type of its own."""
    assert isinstance(located_refusal(call, code, field, *said), ContentError)
