"""`askd answer` on a terminal."""

import re
from collections.abc import Iterable

import pytest
from tests.cli.program import Program
from tests.cli.terminals import END_OF_INPUT, INTERRUPT, terminal


def answers(askd: Program, ask_id: str) -> object:
    return askd.json("get", ask_id)["answers"]


def interviewed(askd: Program, ask_id: str, *lines: str) -> str:
    """What a person is shown who types these lines, all of which are taken."""
    done = askd.run("answer", ask_id, stdin="".join(f"{text}\n" for text in lines), terminal=True, TERM="dumb")
    assert (done.code, done.errors) == (0, "")
    return done.output


def in_order(texts: Iterable[str], shown: str) -> bool:
    """Whether texts are shown one after the other."""
    return re.search("[\\s\\S]*".join(map(re.escape, texts)), shown) is not None


def test_a_text_is_typed(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Which name?").strip()
    shown = interviewed(askd, ask_id, "Zoë")
    assert in_order(("Which name?", "Answer: ", f"answered  {ask_id}"), shown)
    assert answers(askd, ask_id) == ["Zoë"]


def test_an_empty_text_is_confirmed(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "x").strip()
    shown = interviewed(askd, ask_id, "", "n", "", "y")
    assert in_order(("Answer: ", "[y/N] ", "Answer: ", "[y/N] "), shown)
    assert answers(askd, ask_id) == [""]


def test_one_option_is_chosen_by_its_number(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Ship?", "--option", "yes=Yes", "--option", "no=No", "--notes").strip()
    with terminal(askd, "answer", ask_id) as child:
        child.expect("1  Yes")
        child.expect("2  No")
        for wrong in ("", "0", "3", "1 2", "c", "yes", "٢"):
            child.expect("Choose 1-2: ")
            child.type(wrong)
            child.expect("no such choice")
        child.expect("Choose 1-2: ")
        child.type(" 2 ")
        child.expect("Notes \\(Enter for none\\): ")
        child.type("not today")
        child.expect(f"answered  {ask_id}")
        assert child.end()[0] == 0
    assert answers(askd, ask_id) == [{"selected": [{"id": "no", "value": "no"}], "notes": "not today"}]


def test_several_options_and_an_own_answer_are_chosen(askd: Program) -> None:
    options = ("--option", "a", "--option", "b", "--option", "c", "--multiple", "--custom")
    ask_id = askd.text("ask", "s", "Which?", *options).strip()
    shown = interviewed(askd, ask_id, "3,1 c 3", "", "d")
    invitation = "any of 1-3, with spaces between, or c for your own answer: "
    assert in_order((invitation, "Your own answer: ", "must not be empty", "Your own answer: "), shown)
    chosen = [{"id": "a", "value": "a"}, {"id": "c", "value": "c"}]
    assert answers(askd, ask_id) == [{"selected": chosen, "custom": "d"}]


def test_an_own_answer_stands_instead_of_one_option(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Which?", "--option", "a", "--custom", "--notes").strip()
    shown = interviewed(askd, ask_id, "1 c", "C", "b", "")
    assert in_order(("Choose 1, or c for your own answer: ", "no such choice", "Your own answer: ", "Notes"), shown)
    assert answers(askd, ask_id) == [{"selected": [], "custom": "b"}]


def test_questions_asked_together_are_answered_in_order(askd: Program) -> None:
    questions = '[{"type": "text", "prompt": "first"}, {"type": "text", "prompt": "second"}]'
    ask_id = askd.json("ask", "s", "--file", "-", stdin=questions)["id"]
    shown = interviewed(askd, ask_id, "FIRST", "SECOND")
    assert in_order(("first", "Answer: ", "second", "Answer: "), shown)
    assert answers(askd, ask_id) == ["FIRST", "SECOND"]


def test_a_resolved_ask_is_not_asked_about(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "x").strip()
    askd.text("cancel", ask_id)
    refused = askd.run("answer", ask_id, terminal=True)
    assert (refused.code, refused.output) == (1, "")
    assert refused.errors.startswith("error: ask_already_resolved: ")


@pytest.mark.parametrize(("key", "code"), [(INTERRUPT, 130), (END_OF_INPUT, 1)], ids=["Ctrl-C", "Ctrl-D"])
def test_leaving_sends_nothing(askd: Program, key: str, code: int) -> None:
    ask_id = askd.text("ask", "s", "x").strip()
    with terminal(askd, "answer", ask_id) as child:
        child.expect("Answer: ")
        child.press(key)
        ended, shown = child.end()
    assert ended == code
    assert "Traceback" not in shown
    assert askd.json("get", ask_id)["status"] == "pending"


def test_a_person_is_told_how_to_answer(askd: Program) -> None:
    asked = askd.run("ask", "s", "x", terminal=True)
    assert asked.errors == f"answer it with: askd answer {asked.output}"


def test_a_list_fits_the_terminal(askd: Program) -> None:
    ask_id = askd.text("ask", "s" * 100, "x" * 100).strip()
    with terminal(askd, "list", TERM="xterm") as child:
        code, shown = child.end()
    assert code == 0
    assert ask_id in shown
    assert "\x1b[33mpending" in shown
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", row)) <= 80 for row in shown.splitlines())


@pytest.mark.parametrize(("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_list_has_the_colours_of_its_terminal(askd: Program, settings: dict[str, str], coloured: bool) -> None:
    askd.text("ask", "s", "x")
    shown = askd.run("list", terminal=True, **{"TERM": "xterm"} | settings).output
    assert ("\x1b[33mpending" in shown) is coloured


@pytest.mark.parametrize("arguments", [("watch",), ("ask", "s", "x", "--wait")], ids=["watch", "wait"])
def test_an_interrupted_command_ends_quietly(askd: Program, arguments: tuple[str, ...]) -> None:
    with terminal(askd, *arguments) as child:
        child.expect("now live|asked que_")
        child.press(INTERRUPT)
        code, shown = child.end()
    assert code == 130
    assert shown.splitlines()[1:] in (["^C"], [])  # the terminal's own echo, which the program's end may overtake
