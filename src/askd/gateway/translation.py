"""Questions and answers between the core and the form that dialect B and opencode clients share (CONTRACT section 7).

There a question is `{question, header, options: [{label, description}], multiple, custom}`, and an answer to it is an
array of labels.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from askd.domain import canonical
from askd.domain.answers import answer_invalid
from askd.domain.canonical import Json
from askd.domain.text import is_blank
from askd.gateway.fields import Fields
from askd.gateway.refusals import RefusalError, invalid, shorten
from askd.v1 import ask_pb2 as pb
from askd.wire import values

_QUESTION = frozenset({"question", "header", "options", "multiple", "custom"})
_OPTION = frozenset({"label", "description"})


# --- questions ---


def questions_from_json(data: Sequence[Json]) -> list[pb.Question]:
    """The questions of a body's `questions`."""
    return [_question_from_json(Fields(item, f"questions[{index}]", _QUESTION)) for index, item in enumerate(data)]


def _question_from_json(fields: Fields) -> pb.Question:
    text = fields.text("question")
    if is_blank(text):
        raise invalid(fields.at("question"), "must not be blank")
    question = pb.Question(prompt=[pb.ContentPart(text=text)], title=fields.optional_text("header") or None)
    multiple, custom = fields.flag("multiple", default=False), fields.flag("custom", default=True)
    options = fields.array("options") if "options" in fields else []
    if options:
        question.choice.multiple, question.choice.allow_custom = multiple, custom
        _add_options(question.choice, options, fields.at("options"))
    elif multiple or not custom:
        raise invalid(fields.at("options"), "a question without options takes one answer in the person's own words")
    else:
        question.text.SetInParent()
    return question


def _add_options(choice: pb.ChoiceQuestion, options: Sequence[Json], path: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(options):
        fields = Fields(item, f"{path}[{index}]", _OPTION)
        label, description = fields.text("label"), fields.optional_text("description")
        if is_blank(label):
            raise invalid(fields.at("label"), "must not be blank")
        if label in seen:
            raise invalid(fields.at("label"), "is used by an option before")
        seen.add(label)
        option = choice.options.add(id=str(index), label=label, description=description or None)
        option.value.string_value = label


def request_to_json(ask: pb.AskState) -> dict[str, Any]:
    """An ask as a question request. Once its payload has expired it has no questions."""
    request: dict[str, Any] = {
        "id": ask.id,
        "sessionID": ask.session_id,
        "questions": [_question_to_json(question) for question in ask.questions],
    }
    if ask.HasField("tool"):
        request["tool"] = {"messageID": ask.tool.message_id, "callID": ask.tool.call_id}
    return request


def _question_to_json(question: pb.Question) -> dict[str, Any]:
    is_text = question.WhichOneof("kind") == "text"
    choice = question.choice
    return {
        "question": "\n".join(_part_text(part) for part in question.prompt),
        "header": question.title,
        "options": [{"label": option.label, "description": option.description} for option in choice.options],
        "multiple": choice.multiple,
        "custom": is_text or choice.allow_custom,
    }


def _part_text(part: pb.ContentPart) -> str:
    if part.WhichOneof("part") == "text":
        return part.text
    return canonical.encode(values.from_proto(part.json, "json"))


# --- answers ---


def submissions(answers: Sequence[Json], questions: Sequence[pb.Question]) -> list[pb.AnswerSubmission]:
    """The submissions that arrays of labels mean; anything that means none is answer_invalid."""
    return [
        _submission(labels, question, index)
        for index, (labels, question) in enumerate(zip(answers, questions, strict=True))
    ]


def _submission(labels: Json, question: pb.Question, index: int) -> pb.AnswerSubmission:
    texts = _texts(labels, index)
    if question.WhichOneof("kind") == "text":
        return pb.AnswerSubmission(text=_one_free_text(texts, index))
    selected, free = _match_all(texts, question.choice, index)
    choice = pb.ChoiceSubmission(selected_ids=selected)
    if free:
        choice.custom = _one_free_text(free, index)
        if not question.choice.allow_custom:
            raise answer_invalid(index, f'"{shorten(choice.custom, 100)}" is no option')
    return pb.AnswerSubmission(choice=choice)


def _texts(labels: Json, index: int) -> list[str]:
    if not isinstance(labels, list):
        raise answer_invalid(index, "must be an array of labels")
    for position, label in enumerate(labels):
        if not isinstance(label, str):
            raise answer_invalid(index, f"the label at {position} must be a string")
    if not labels:
        raise answer_invalid(index, "at least one label is required")
    return [label for label in labels if isinstance(label, str)]


def _one_free_text(texts: Sequence[str], index: int) -> str:
    if len(texts) > 1:
        raise answer_invalid(index, "at most one answer may be in the person's own words")
    return texts[0]


def _match_all(texts: Sequence[str], choice: pb.ChoiceQuestion, index: int) -> tuple[list[str], list[str]]:
    """The ids that the texts select, and the texts that select nothing."""
    labels = _Labels(choice)
    selected: list[str] = []
    free: list[str] = []
    for text in texts:
        ids = labels.find(text)
        if len(ids) > 1:
            raise answer_invalid(index, f'several options are called "{shorten(text, 100)}"; name the option by its id')
        (selected if ids else free).extend(ids or [text])
    return selected, free


class _Labels:
    """The options of a question by what people call them."""

    def __init__(self, choice: pb.ChoiceQuestion) -> None:
        self._exact: dict[str, list[str]] = {}
        self._normal: dict[str, list[str]] = {}
        for option in choice.options:
            self._exact.setdefault(option.label, []).append(option.id)
            self._normal.setdefault(_normalize(option.label), []).append(option.id)
        # Where labels repeat, ids tell their options apart.
        repeat = len(self._normal) < len(choice.options)
        self._ids = {option.id for option in choice.options} if repeat else set()

    def find(self, text: str) -> list[str]:
        """The ids of the options that a text may mean."""
        found = self._exact.get(text) or self._normal.get(_normalize(text))
        return found or ([text] if text in self._ids else [])


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def answers_to_json(ask: pb.AskState) -> list[list[str]]:
    """The answers of an ask as arrays of labels, a custom answer last."""
    return [_answer_labels(answer, question) for answer, question in zip(ask.answers, ask.questions, strict=False)]


def _answer_labels(answer: pb.Answer, question: pb.Question) -> list[str]:
    if answer.WhichOneof("kind") == "text":
        return [answer.text]
    labels = {option.id: option.label for option in question.choice.options}
    chosen = [labels.get(selection.id, selection.id) for selection in answer.choice.selected]
    return chosen + ([answer.choice.custom] if answer.choice.HasField("custom") else [])


def replies(messages: Sequence[pb.AnswerSubmission], questions: Sequence[pb.Question]) -> list[list[str]]:
    """Submissions as arrays of labels that mean them: an option whose label others bear too goes by its id."""
    return [_reply(message, question) for message, question in zip(messages, questions, strict=False)]


def _reply(message: pb.AnswerSubmission, question: pb.Question) -> list[str]:
    if message.WhichOneof("kind") == "text":
        return [message.text]
    names = _names(question.choice)
    chosen = [names.get(identifier, identifier) for identifier in message.choice.selected_ids]
    return chosen + ([message.choice.custom] if message.choice.HasField("custom") else [])


def _names(choice: pb.ChoiceQuestion) -> dict[str, str]:
    """What to call each option by in a reply, by id."""
    labels = _Labels(choice)
    return {
        option.id: option.label if labels.find(option.label) == [option.id] else option.id for option in choice.options
    }


# --- what things are called ---

_FIELDS = {
    "ask_id": "requestID",
    "workspace_id": "workspaceID",
    "session_id": "sessionID",
    "provider_id": "providerID",
    "model_id": "modelID",
    "question_index": "questionIndex",
    "expires_in": "expiresIn",
    "tool.message_id": "tool.messageID",
    "tool.call_id": "tool.callID",
    "answer_id": "Idempotency-Key",
    "after_revision": "Last-Event-ID",
}


def in_our_names(refusal: RefusalError) -> RefusalError:
    """The same refusal with the field named as a question request names it."""
    if refusal.field in _FIELDS:
        return refusal.at(_FIELDS[refusal.field])
    found = re.fullmatch(r"(questions\[\d+\])\.(prompt|title)\b.*", refusal.field, re.DOTALL)
    if found:
        return refusal.at(f"{found[1]}.{'question' if found[2] == 'prompt' else 'header'}")
    return refusal
