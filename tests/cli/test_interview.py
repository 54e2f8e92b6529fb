"""`askd answer` on a terminal."""

import re

import pytest
from tests.cli.program import Program
from tests.cli.terminals import END_OF_INPUT, INTERRUPT, terminal


def answers(askd: Program, ask_id: str) -> object:
    return askd.json("get", ask_id)["answers"]


def test_a_text_is_typed(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Which name?").strip()
    with terminal(askd, "answer", ask_id) as child:
        child.expect("Which name\\?")
        child.expect("Answer: ")
        child.type("Zoë")
        child.expect(f"answered  {ask_id}")
        assert child.end()[0] == 0
    assert answers(askd, ask_id) == ["Zoë"]


def test_an_empty_text_is_confirmed(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "x").strip()
    with terminal(askd, "answer", ask_id) as child:
        for reply in ("", "n", "", "y"):
            child.expect("Answer: |\\[y/N\\] ")
            child.type(reply)
        assert child.end()[0] == 0
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
        assert child.end()[0] == 0
    assert answers(askd, ask_id) == [{"selected": [{"id": "no", "value": "no"}], "notes": "not today"}]


def test_several_options_and_an_own_answer_are_chosen(askd: Program) -> None:
    options = ("--option", "a", "--option", "b", "--option", "c", "--multiple", "--custom")
    ask_id = askd.text("ask", "s", "Which?", *options).strip()
    with terminal(askd, "answer", ask_id) as child:
        child.expect("any of 1-3, with spaces between, or c for your own answer: ")
        child.type("3,1 c 3")
        child.expect("Your own answer: ")
        child.type("")
        child.expect("must not be empty")
        child.type("d")
        assert child.end()[0] == 0
    chosen = [{"id": "a", "value": "a"}, {"id": "c", "value": "c"}]
    assert answers(askd, ask_id) == [{"selected": chosen, "custom": "d"}]


def test_an_own_answer_stands_instead_of_one_option(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Which?", "--option", "a", "--custom", "--notes").strip()
    with terminal(askd, "answer", ask_id) as child:
        child.expect("Choose 1, or c for your own answer: ")
        child.type("1 c")
        child.expect("no such choice")
        child.type("C")
        child.expect("Your own answer: ")
        child.type("b")
        child.expect("Notes")
        child.type("")
        assert child.end()[0] == 0
    assert answers(askd, ask_id) == [{"selected": [], "custom": "b"}]


def test_questions_asked_together_are_answered_in_order(askd: Program) -> None:
    questions = '[{"type": "text", "prompt": "first"}, {"type": "text", "prompt": "second"}]'
    ask_id = askd.json("ask", "s", "--file", "-", stdin=questions)["id"]
    with terminal(askd, "answer", ask_id) as child:
        for text in ("first", "second"):
            child.expect(f"{text}[\\s\\S]*Answer: ")
            child.type(text.upper())
        assert child.end()[0] == 0
    assert answers(askd, ask_id) == ["FIRST", "SECOND"]


def test_a_resolved_ask_is_not_asked_about(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "x").strip()
    askd.text("cancel", ask_id)
    with terminal(askd, "answer", ask_id) as child:
        child.expect("error: ask_already_resolved: ")
        assert child.end()[0] == 1


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
    with terminal(askd, "ask", "s", "x") as child:
        child.expect("que_\\w+\r\nanswer it with: askd answer que_")
        assert child.end()[0] == 0


@pytest.mark.parametrize(("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_list_fits_the_terminal_and_has_its_colours(askd: Program, settings: dict[str, str], coloured: bool) -> None:
    ask_id = askd.text("ask", "s" * 100, "x" * 100).strip()
    with terminal(askd, "list", **{"TERM": "xterm"} | settings) as child:
        code, shown = child.end()
    assert code == 0
    assert ask_id in shown
    assert ("\x1b[33mpending" in shown) is coloured
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", row)) <= 80 for row in shown.splitlines())


@pytest.mark.parametrize("arguments", [("watch",), ("ask", "s", "x", "--wait")], ids=["watch", "wait"])
def test_an_interrupted_command_ends_quietly(askd: Program, arguments: tuple[str, ...]) -> None:
    with terminal(askd, *arguments) as child:
        child.expect("now live|asked que_")
        child.press(INTERRUPT)
        code, shown = child.end()
    assert code == 130
    assert shown.splitlines()[1:] == ["^C"]
