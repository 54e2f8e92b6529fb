"""Questions and answers between the core and the form that dialect B and opencode clients share (CONTRACT section 7).

There a question is `{question, header, options: [{label, description}], multiple, custom}`, and an answer to it is an
array of labels.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from askd.domain import canonical, labels
from askd.domain.answers import Submission, answer_invalid
from askd.domain.canonical import Json
from askd.domain.text import is_blank
from askd.gateway.fields import Fields
from askd.gateway.refusals import RefusalError, invalid
from askd.v1 import ask_pb2 as pb
from askd.wire import content, values

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
        content.submission_to_proto(_submission(_texts(item, index), question, index))
        for index, (item, question) in enumerate(zip(answers, questions, strict=True))
    ]


def _submission(texts: Sequence[str], question: pb.Question, index: int) -> Submission:
    if question.WhichOneof("kind") == "text":
        return labels.free_text(texts, index)
    return labels.choose(texts, question.choice, index)


def _texts(value: Json, index: int) -> list[str]:
    if not isinstance(value, list):
        raise answer_invalid(index, "must be an array of labels")
    for position, item in enumerate(value):
        if not isinstance(item, str):
            raise answer_invalid(index, f"the label at {position} must be a string")
    return [item for item in value if isinstance(item, str)]


def answers_to_json(ask: pb.AskState) -> list[list[str]]:
    """The answers of an ask as arrays of labels, a custom answer last."""
    return [_answer_labels(answer, question) for answer, question in zip(ask.answers, ask.questions, strict=False)]


def _answer_labels(answer: pb.Answer, question: pb.Question) -> list[str]:
    if answer.WhichOneof("kind") == "text":
        return [answer.text]
    names = {option.id: option.label for option in question.choice.options}
    return _named([selection.id for selection in answer.choice.selected], names, answer.choice)


def replies(messages: Sequence[pb.AnswerSubmission], questions: Sequence[pb.Question]) -> list[list[str]]:
    """Submissions as arrays of labels that mean them: an option whose label others bear too goes by its id."""
    return [_reply(message, question) for message, question in zip(messages, questions, strict=False)]


def _reply(message: pb.AnswerSubmission, question: pb.Question) -> list[str]:
    if message.WhichOneof("kind") == "text":
        return [message.text]
    known = labels.Labels(question.choice.options)
    names = {option.id: known.name(option) for option in question.choice.options}
    return _named(message.choice.selected_ids, names, message.choice)


def _named(ids: Iterable[str], names: Mapping[str, str], choice: pb.ChoiceAnswer | pb.ChoiceSubmission) -> list[str]:
    return [names[identifier] for identifier in ids] + ([choice.custom] if choice.HasField("custom") else [])


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
