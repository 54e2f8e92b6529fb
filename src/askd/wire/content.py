"""Questions, submissions and answers as protobuf messages and back."""

from collections.abc import Sequence

from askd.domain.answers import Answer, ChoiceAnswer, ChoiceSubmission, Submission, answer_invalid
from askd.domain.errors import Code, content
from askd.domain.paths import Path, render
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, Part, Question, TextPart, TextQuestion
from askd.v1 import ask_pb2 as pb
from askd.wire import values


def question_from_proto(message: pb.Question, path: str) -> Question:
    """The question of a message, its limits unchecked; an unset kind, part or value is ContentError."""
    parts = (path, "prompt")
    prompt = tuple([_part(part, (parts, index)) for index, part in enumerate(message.prompt)])
    title = message.title if message.HasField("title") else None
    match message.WhichOneof("kind"):
        case "text":
            return TextQuestion(prompt=prompt, title=title)
        case "choice":
            choice, options = message.choice, (path, "options")
            return ChoiceQuestion(
                prompt=prompt,
                title=title,
                options=tuple([_option(option, (options, index)) for index, option in enumerate(choice.options)]),
                multiple=choice.multiple,
                allow_custom=choice.allow_custom,
                allow_notes=choice.allow_notes,
            )
    raise content(f"{path}.type", "text or choice must be set")


def _part(message: pb.ContentPart, path: Path) -> Part:
    match message.WhichOneof("part"):
        case "text":
            return TextPart(text=message.text)
        case "json":
            return JsonPart(value=values.from_proto(message.json, (path, "value")))
    raise content(render((path, "type")), "must be text or json", Code.CONTENT_KIND_UNSUPPORTED)


def _option(message: pb.ChoiceOption, path: Path) -> Option:
    return Option(
        id=message.id,
        label=message.label,
        value=values.from_proto(message.value, (path, "value")),
        description=message.description if message.HasField("description") else None,
    )


def fill_question(message: pb.Question, question: Question) -> None:
    """Set a message to a question."""
    for part in question.prompt:
        target = message.prompt.add()
        match part:
            case TextPart(text=text):
                target.text = text
            case JsonPart(value=value):
                values.fill(target.json, value)
    if question.title is not None:
        message.title = question.title
    match question:
        case TextQuestion():
            message.text.SetInParent()
        case ChoiceQuestion():
            _fill_choice(message.choice, question)


def _fill_choice(message: pb.ChoiceQuestion, question: ChoiceQuestion) -> None:
    message.multiple = question.multiple
    message.allow_custom = question.allow_custom
    message.allow_notes = question.allow_notes
    for option in question.options:
        target = message.options.add(id=option.id, label=option.label, description=option.description)
        values.fill(target.value, option.value)


def question_to_proto(question: Question) -> pb.Question:
    """The message of a question."""
    message = pb.Question()
    fill_question(message, question)
    return message


def submissions_from_proto(messages: Sequence[pb.AnswerSubmission]) -> tuple[Submission, ...]:
    """The submissions of messages; an unset kind is answer_invalid."""
    return tuple(_submission(message, index) for index, message in enumerate(messages))


def _submission(message: pb.AnswerSubmission, index: int) -> Submission:
    match message.WhichOneof("kind"):
        case "text":
            return message.text
        case "choice":
            choice = message.choice
            return ChoiceSubmission(
                selected_ids=tuple(choice.selected_ids),
                custom=choice.custom if choice.HasField("custom") else None,
                notes=choice.notes if choice.HasField("notes") else None,
            )
    raise answer_invalid(index, "text or choice must be set")


def submission_to_proto(submission: Submission) -> pb.AnswerSubmission:
    """The message of a submission."""
    if isinstance(submission, str):
        return pb.AnswerSubmission(text=submission)
    choice = pb.ChoiceSubmission(selected_ids=submission.selected_ids, custom=submission.custom, notes=submission.notes)
    return pb.AnswerSubmission(choice=choice)


def fill_answer(message: pb.Answer, answer: Answer) -> None:
    """Set a message to an answer."""
    match answer:
        case str():
            message.text = answer
        case ChoiceAnswer():
            message.choice.SetInParent()
            for selection in answer.selected:
                values.fill(message.choice.selected.add(id=selection.id).value, selection.value)
            if answer.custom is not None:
                message.choice.custom = answer.custom
            if answer.notes is not None:
                message.choice.notes = answer.notes
