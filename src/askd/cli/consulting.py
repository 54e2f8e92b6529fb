"""`askd consult`: what a model would answer."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askd.cli import documents, results
from askd.cli.options import AsJson, AskId
from askd.cli.target import Target, takes_target
from askd.cli.terminal import block, console, line

if TYPE_CHECKING:
    from askd.client import AsyncClient
    from askd.v1 import ask_pb2 as pb
    from askd.v1.ask_service_pb2 import ConsultAskResponse


@takes_target
def consult(
    target: Target,
    ask_id: AskId,
    provider: Annotated[str, typer.Option(metavar="ID", help="A provider that the server is configured with.")],
    model: Annotated[str, typer.Option(metavar="ID", help="A model of the provider.")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="More context for the model.")] = "",
    system: Annotated[str, typer.Option(metavar="TEXT", help="Guidance for the model.")] = "",
    question: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="This question alone, counted from 1.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Post the advice as the answer, for good.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a model how a pending ask might be answered.

    With --accept the advice is then posted as the answer, after a line that says what will be.
    """
    if accept and question is not None:
        raise typer.BadParameter("--accept answers every question of the ask; leave --question out")
    index = None if question is None else question - 1

    async def advise(client: "AsyncClient") -> "tuple[pb.AskState, ConsultAskResponse]":
        advice = await client.consult(
            ask_id, provider=provider, model=model, note=note, system=system, question_index=index
        )
        return await client.get(ask_id), advice

    ask, advice = target.run(advise)
    chosen = _words(advice, ask.questions if index is None else ask.questions[index : index + 1])
    if as_json:
        _write(target, ask_id, advice, chosen, accept=accept)
    else:
        _show(advice, chosen)
        if accept:
            print(_announcement(ask_id, chosen))
            results.show_resolution(_answer(target, ask_id, advice), as_json=False)


def _answer(target: Target, ask_id: str, advice: "ConsultAskResponse") -> "pb.AskState":
    return target.run(lambda client: client.answer(ask_id, list(advice.submissions)))


def _announcement(ask_id: str, chosen: Sequence[Sequence[str]]) -> str:
    return f"answering {line(ask_id)} with {line('; '.join(', '.join(words) for words in chosen))}"


def _words(advice: "ConsultAskResponse", questions: "Sequence[pb.Question]") -> list[list[str]]:
    """What the advice recommends for each question."""
    return [_said(item, question) for item, question in zip(advice.submissions, questions, strict=False)]


def _said(submission: "pb.AnswerSubmission", question: "pb.Question") -> list[str]:
    from askd.domain.labels import Labels

    if submission.HasField("text"):
        return [submission.text]
    choice = submission.choice
    labels = Labels(question.choice.options)
    names = {
        option.id: option.label if labels.name(option) == option.label else f"{option.label} ({option.id})"
        for option in question.choice.options
    }
    return [names[identifier] for identifier in choice.selected_ids] + [choice.custom] * choice.HasField("custom")


def _show(advice: "ConsultAskResponse", chosen: Sequence[Sequence[str]]) -> None:
    from askd.cli import views

    output = console()
    for index, words in enumerate(chosen):
        if len(chosen) > 1:
            print(f"Question {index + 1} of {len(chosen)}")
        output.print(views.given("\n".join(words)), soft_wrap=True)
    usage = advice.usage
    tokens = f"{usage.total_tokens} ({usage.prompt_tokens} in, {usage.completion_tokens} out)"
    output.print(views.fields([("confidence", _confidence(advice)), ("tokens", tokens)]))
    print(block(advice.reasoning))


def _confidence(advice: "ConsultAskResponse") -> str:
    from askd.v1 import ask_pb2 as pb
    from askd.wire.json import word

    return word(pb.Confidence.Name(advice.confidence), "CONFIDENCE_")


def _write(
    target: Target, ask_id: str, advice: "ConsultAskResponse", chosen: Sequence[Sequence[str]], *, accept: bool
) -> None:
    """One document: the advice and, where it was accepted, the answered ask. Advice that could not be posted is
    written all the same, since it was paid for."""
    from askd.wire import json

    document = _document(advice)
    try:
        if accept:
            print(_announcement(ask_id, chosen), file=sys.stderr)
            document["ask"] = json.ask(_answer(target, ask_id, advice))
    finally:
        documents.write(document)


def _document(advice: "ConsultAskResponse") -> dict[str, Any]:
    usage = advice.usage
    return {
        "recommendation": list(advice.recommendation),
        "reasoning": advice.reasoning,
        "confidence": _confidence(advice),
        "usage": {
            "promptTokens": usage.prompt_tokens,
            "completionTokens": usage.completion_tokens,
            "totalTokens": usage.total_tokens,
        },
        "submissions": [_submission(item) for item in advice.submissions],
    }


def _submission(message: "pb.AnswerSubmission") -> Any:
    if message.HasField("text"):
        return message.text
    choice = message.choice
    return {"selectedIds": list(choice.selected_ids)} | ({"custom": choice.custom} if choice.HasField("custom") else {})
