"""`askd consult`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.advisors.consulting import Advised, advised
from tests.advisors.provider_server import Step, reply
from tests.advisors.wires import ADVICE, CHAT
from tests.cli.program import Program
from tests.clients import ANSWERED, PENDING
from tests.questions import choice_question, chosen, text_question

from askd.v1 import ask_pb2

USAGE = {"promptTokens": 312, "completionTokens": 88, "totalTokens": 400}


class Command:
    """Runs `askd consult`, with p and m as provider and model."""

    def __init__(self, place: Advised) -> None:
        self.place = place
        self._program = Program(
            {
                "ASKD_ADDRESS": place.served.address,
                "ASKD_KEY": place.served.credential,
                "ASKD_WORKSPACE": "w",
            }
        )

    async def __call__(self, ask_id: str, *options: str) -> tuple[int, list[str], str]:
        """The exit code, the lines of output and the errors."""
        arguments = ["consult", ask_id, "--provider", "p", "--model", "m", *options]
        done = await asyncio.to_thread(self._program.run, *arguments)
        return done.code, [line.rstrip() for line in done.output.splitlines()], done.errors

    async def status(self, ask_id: str) -> ask_pb2.AskStatus.ValueType:
        return (await self.place.admin.get(ask_id)).status


@asynccontextmanager
async def command(folder: Path, *steps: Step) -> AsyncIterator[Command]:
    async with advised(folder, *steps) as place:
        yield Command(place)


async def test_the_advice_its_confidence_and_reasons_are_printed(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.advice(reasoning="A is safer.\x1b[2J"))) as consult:
        ask = await consult.place.ask()
        printed = ["→ A", "confidence  high", "tokens      400 (312 in, 88 out)", "A is safer.\\x1b[2J"]
        assert await consult(ask.id) == (0, printed, "")
        assert await consult.status(ask.id) == PENDING


async def test_what_the_model_is_told(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.advice(recommendation=["Ada"]))) as consult:
        ask = await consult.place.ask(choice_question(), text_question("Which name?"))
        code, output, _ = await consult(ask.id, "--question", "2", "--note", "my note", "--system", "my guidance")
        assert (code, output[0]) == (0, "→ Ada")
        (request,) = consult.place.provider.requests
        document = json.loads(CHAT.user(request))
        assert document["context"] == "my note"
        assert [question["answer"] for question in document["questions"]] == ["text"]
        assert CHAT.system(request).endswith("my guidance")


async def test_accepting_says_first_what_it_posts(tmp_path: Path) -> None:
    step = reply(CHAT.advice(recommendation=[["B", "A"], ["Ada"]]))
    async with command(tmp_path, step) as consult:
        ask = await consult.place.ask(choice_question("a", "b", multiple=True), text_question())
        code, output, errors = await consult(ask.id, "--accept")
        assert (code, errors) == (0, "")
        assert output[:5] == ["Question 1 of 2", "→ B", "  A", "Question 2 of 2", "→ Ada"]
        assert output[-2:] == [f"answering {ask.id} with B, A; Ada", f"answered  {ask.id}"]
        answered = await consult.place.admin.get(ask.id)
        assert [item.id for item in answered.answers[0].choice.selected] == ["a", "b"]


async def test_as_json(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.advice(recommendation=["own"]))) as consult:
        ask = await consult.place.ask(choice_question(allow_custom=True))
        submissions = [{"selectedIds": [], "custom": "own"}]
        document = ADVICE | {"recommendation": ["own"], "usage": USAGE, "submissions": submissions}
        code, output, errors = await consult(ask.id, "--json")
        assert (code, errors, json.loads("".join(output))) == (0, "", document)
        code, output, errors = await consult(ask.id, "--json", "--accept")
        accepted = json.loads("".join(output))
        assert (code, errors) == (0, f"answering {ask.id} with own\n")
        assert accepted.pop("ask")["status"] == "answered"
        assert accepted == document
        assert await consult.status(ask.id) == ANSWERED


async def test_advice_that_comes_too_late_is_written_and_refused(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.advice())) as consult:
        ask = await consult.place.ask()

        async def step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await consult.place.admin.answer(ask.id, chosen("b"))
            await reply(CHAT.advice())(reader, writer)

        consult.place.provider.steps = [step]
        code, output, errors = await consult(ask.id, "--json", "--accept")
        assert code == 1
        assert json.loads("".join(output))["recommendation"] == ["A"]
        assert "error: ask_already_resolved" in errors


async def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.text("prose"))) as consult:
        ask = await consult.place.ask()
        assert await consult(ask.id) == (1, [], "error: model_output_invalid: the output is no JSON\n")


async def test_accepting_one_question_of_several_is_wrong_usage(tmp_path: Path) -> None:
    async with command(tmp_path, reply(CHAT.advice())) as consult:
        code, _, _ = await consult("que_x", "--accept", "--question", "1")
        assert code == 2
        assert consult.place.provider.requests == []
