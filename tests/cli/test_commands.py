"""Every command with --json and for people, against a real server (CONTRACT section 10)."""

import json
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.client.restartable import RestartableServer

from askd.cli import target

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] \u202etxt"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07[bold red]x[/] \\u202etxt"


def test_a_text_question_goes_from_asking_to_the_answer(askd: Program) -> None:
    ask_id = askd.text("ask", "deploy", "Which port?", "--turn", "t").strip()
    assert askd.json("get", ask_id)["questions"] == [
        {"prompt": [{"type": "text", "text": "Which port?"}], "type": "text"}
    ]
    assert askd.json("answer", ask_id, "--text", "8080", "--answer-id", "a")["answers"] == ["8080"]
    assert askd.text("wait", ask_id) == "8080\n"
    assert askd.json("wait", ask_id)["turnId"] == "t"
    again = askd.run("answer", ask_id, "--text", "8080", "--answer-id", "a")
    assert (again.code, again.output) == (0, f"answered  {ask_id}\n")


def test_a_choice_is_made_of_options(askd: Program) -> None:
    asked = askd.json(
        "ask", "deploy", "Ship it?", "--title", "Release", "--option", "yes=Yes = now", "--option", "No",
        "--multiple", "--custom", "--notes", "--tool", "message", "call", "--request-id", "r",
    )  # fmt: skip
    assert asked["questions"] == [
        {
            "prompt": [{"type": "text", "text": "Ship it?"}],
            "title": "Release",
            "type": "choice",
            "options": [
                {"id": "yes", "label": "Yes = now", "value": "yes"},
                {"id": "No", "label": "No", "value": "No"},
            ],
            "multiple": True,
            "allowCustom": True,
            "allowNotes": True,
        }
    ]
    assert asked["tool"] == {"messageId": "message", "callId": "call"}
    chosen = ("--select", "No", "--select", "yes", "--custom", "later", "--notes", "n")
    assert askd.json("answer", asked["id"], *chosen)["answers"] == [
        {"selected": [{"id": "yes", "value": "yes"}, {"id": "No", "value": "No"}], "custom": "later", "notes": "n"}
    ]
    assert askd.text("wait", asked["id"]) == "Yes = now\nNo\nlater\nnotes: n\n"


def test_questions_and_answers_come_from_files(askd: Program, tmp_path: Path) -> None:
    questions = [{"type": "text", "prompt": "a"}, {"type": "text", "prompt": [{"type": "json", "value": {"b": [1]}}]}]
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    asked = askd.json("ask", "s", "--file", str(tmp_path / "questions.json"))
    assert [question["prompt"][0] for question in asked["questions"]] == [
        {"type": "text", "text": "a"},
        {"type": "json", "value": {"b": [1]}},
    ]
    assert askd.json("answer", asked["id"], "--file", "-", stdin='["x", "\\u0000\\ud83d\\ude00"]')["answers"] == [
        "x",
        "\0😀",
    ]
    assert askd.text("wait", asked["id"]) == "1. x\n2. \\x00😀\n"
    assert askd.json("ask", "s", "--file", "-", stdin=json.dumps(questions[0]))["status"] == "pending"


def test_an_ask_may_expire(askd: Program) -> None:
    assert "expiresAt" in askd.json("ask", "s", "x", "--expires-in", "2h")
    assert "expires" in askd.text("get", askd.json("list")[0]["id"])


def test_asking_may_wait_for_the_answer(askd: Program) -> None:
    with askd.started("ask", "s", "Why?", "--wait") as waiting:
        assert waiting.stderr is not None
        ask_id = waiting.stderr.readline().removeprefix("asked ").strip()
        askd.run("answer", ask_id, "--text", "because")
        assert waiting.communicate() == ("because\n", "")
        assert waiting.returncode == 0


def test_what_was_not_answered_is_told_beside_the_output(askd: Program) -> None:
    rejected, cancelled, pending = (askd.text("ask", "s", "x").strip() for _ in range(3))
    assert askd.json("reject", rejected, "--reason", "no\x1btime")["rejectReason"] == "no\x1btime"
    assert askd.text("cancel", cancelled) == f"cancelled  {cancelled}\n"
    for ask_id, told in (
        (rejected, "rejected: no\\x1btime"),
        (cancelled, "cancelled: withdrawn"),
        (pending, "pending"),
    ):
        done = askd.run("wait", ask_id, "--timeout", "0.01s")
        assert (done.code, done.output, done.errors) == (0, "", f"{told}\n")


def test_lists_hold_what_their_filters_say(askd: Program) -> None:
    ids = [askd.text("ask", "s", f"question {number}", "--turn", f"t{number}").strip() for number in range(3)]
    askd.text("cancel", ids[1])
    assert [ask["id"] for ask in askd.json("list")] == ids
    assert [ask["id"] for ask in askd.json("list", "--limit", "2")] == ids[:2]
    assert [ask["id"] for ask in askd.json("list", "--status", "pending", "--status", "answered")] == [ids[0], ids[2]]
    assert [ask["id"] for ask in askd.json("list", "--session", "s", "--turn", "t2")] == ids[2:]
    assert askd.json("list", "--session", "other") == []
    header, *rows = askd.text("list").splitlines()
    assert header.split() == ["ask", "status", "age", "session", "question"]
    assert [(row.split()[0], row.split()[1]) for row in rows] == list(
        zip(ids, ("pending", "cancelled", "pending"), strict=True)
    )


def test_a_question_cannot_drive_the_terminal_and_is_exact_for_programs(askd: Program) -> None:
    asked = askd.json("ask", "s", HOSTILE, "--title", HOSTILE, "--option", f"{HOSTILE}={HOSTILE}")
    assert asked["questions"][0]["options"][0]["label"] == HOSTILE
    assert asked["questions"][0]["prompt"][0]["text"] == HOSTILE
    for command in (("get", asked["id"]), ("list",), ("watch", "--until-synced")):
        written = askd.text(*command)
        assert SHOWN in written
        assert not any(character in written for character in "\x1b\x07\u202e")
    refused = askd.run("answer", asked["id"], "--select", "\x1b[2J")
    assert "\x1b" not in refused.errors


def test_questions_are_validated(askd: Program) -> None:
    assert askd.text("validate", "-", stdin='{"type": "text", "prompt": "x"}') == "valid\n"
    assert askd.json("validate", "-", stdin='[{"type": "text", "prompt": []}]') == {"valid": True}
    refused = askd.run("validate", "-", stdin='{"type": "text", "prompt": "x", "title": " "}')
    assert (refused.code, refused.output) == (1, "")
    assert refused.errors == "error: invalid_arguments: question.title: must not be blank\n"


def test_keys_are_made_listed_and_revoked(askd: Program, shared_server: RestartableServer) -> None:
    made = askd.json("keys", "create", "laptop", "--grant", "asker@a/b@c", "--grant", "viewer@*")
    grants = [{"role": "asker", "workspaceId": "a/b@c"}, {"role": "viewer", "workspaceId": "*"}]
    assert made["key"]["grants"] == grants
    own = Program({"ASKD_ADDRESS": shared_server.address, "ASKD_KEY": made["secret"]})
    assert own.json("whoami") == {"principal": f"key:{made['key']['id']}", "grants": grants}
    assert own.text("whoami") == f"key:{made['key']['id']}\n  asker@a/b@c\n  viewer@*\n"
    assert askd.text("keys", "revoke", made["key"]["id"]) == f"revoked  {made['key']['id']}\n"
    listed = next(key for key in askd.json("keys", "list") if key["id"] == made["key"]["id"])
    assert listed["revokedAt"].endswith("Z")
    assert "laptop" in askd.text("keys", "list")
    refused = own.run("whoami")
    assert (refused.code, refused.errors.split(":")[1]) == (1, " unauthenticated")


def test_a_key_may_be_bound_to_a_session_and_expire(askd: Program, shared_server: RestartableServer) -> None:
    bound = ("--grant", "asker@a", "--session", "s/1", "--expires-in", "1d")
    made = askd.json("keys", "create", "bound", *bound)
    assert made["key"]["grants"] == [{"role": "asker", "workspaceId": "a", "sessionId": "s/1"}]
    assert made["key"]["expiresAt"].endswith("Z")
    own = Program({"ASKD_ADDRESS": shared_server.address, "ASKD_KEY": made["secret"]})
    assert own.text("whoami").endswith("asker@a (session s/1)\n")
    assert own.run("ask", "other", "x").code == 1
    assert own.json("ask", "s/1", "x")["workspaceId"] == "a"


def test_a_lost_admin_key_is_made_again(askd: Program, tmp_path: Path) -> None:
    assert askd.json("keys", "bootstrap", "--data-dir", str(tmp_path)) == {"file": str(tmp_path / "admin.key")}
    assert (tmp_path / "admin.key").read_text().startswith("askd_")
    failed = askd.run("keys", "bootstrap", "--data-dir", "/dev/null")
    assert (failed.code, failed.output, failed.errors.count("\n")) == (1, "", 1)


def test_the_secret_of_a_key_is_the_only_output(askd: Program) -> None:
    made = askd.run("keys", "create", "laptop", "--grant", "asker@default")
    assert made.output.startswith("askd_")
    assert len(made.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["get", "que_none"], "not_found"),
        (["list", "--session", "x" * 129], "invalid_arguments"),
        (["watch", "--after", "99"], "invalid_arguments"),
        (["ask", "s", "x", "--option", "=empty"], "invalid_arguments"),
        (["ask", "s", "--file", "/no such file"], "invalid_arguments"),
        (["answer", "que_none", "--file", "/no such file"], "answer_invalid"),
    ],
)
def test_a_refusal_is_one_line_and_exit_code_1(askd: Program, arguments: list[str], code: str) -> None:
    for form in ([], ["--json"]):
        refused = askd.run(*arguments, *form)
        assert (refused.code, refused.output) == (1, "")
        assert refused.errors.startswith(f"error: {code}: ")
        assert refused.errors.count("\n") == 1


@pytest.mark.parametrize(
    "document",
    ['{"type": "text", "type": "text", "prompt": ""}', "[NaN]", "{", "[" * 100_000, "\ufeff{}", "1" * 5000],
    ids=["duplicate key", "NaN", "cut off", "deep", "byte order mark", "long number"],
)
def test_what_is_no_json_is_refused(askd: Program, document: str) -> None:
    refused = askd.run("validate", "-", stdin=document)
    assert (refused.code, refused.errors[:26]) == (1, "error: invalid_arguments: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["ask"],
        ["ask", "s"],
        ["ask", "s", "x", "--multiple"],
        ["ask", "s", "x", "--file", "-"],
        ["ask", "s", "x", "--expires-in", "soon"],
        ["list", "--status", "open"],
        ["list", "--limit", "0"],
        ["answer", "que_x"],
        ["answer", "que_x", "--text", "a", "--select", "b"],
        ["keys", "create", "laptop"],
        ["keys", "create", "laptop", "--grant", "asker"],
        ["keys", "create", "laptop", "--grant", "king@default"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(askd: Program, arguments: list[str]) -> None:
    refused = askd.run(*arguments)
    assert (refused.code, refused.output) == (2, "")
    assert "Usage: askd" in refused.errors


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "PATIENCE", 0.2)
    refused = Program({}).run("list", "--address", "127.0.0.1:1")
    assert (refused.code, refused.output) == (1, "")
    assert refused.errors.startswith("error: unavailable: ")
    assert "Traceback" not in refused.errors


def test_a_missing_credential_is_explained(askd: Program, tmp_path: Path) -> None:
    refused = askd.run("list", ASKD_DATA_DIR=str(tmp_path))
    assert refused.code == 1
    error, hint = refused.errors.splitlines()
    assert error.startswith("error: unauthenticated: ")
    assert "ASKD_KEY" in hint


def test_options_are_stronger_than_the_environment(askd: Program, shared_server: RestartableServer) -> None:
    ask_id = askd.text("ask", "s", "x", "--workspace", "another", "--address", shared_server.address).strip()
    assert askd.json("get", ask_id, "--workspace", "another")["workspaceId"] == "another"
    assert askd.run("get", ask_id).errors.startswith("error: not_found: ")


def test_the_version_is_told() -> None:
    assert Program({}).text("--version").startswith("askd ")


def test_a_reader_that_goes_away_ends_the_program_quietly(askd: Program) -> None:
    askd.text("ask", "s", "x")
    with askd.started("watch", "--json") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert json.loads(watching.stdout.readline())["type"] == "pending"
        watching.stdout.close()
        for _ in range(2):  # the first may lie in the pipe
            askd.text("ask", "s", "x")
        errors = watching.stderr.read()
    assert (watching.returncode, errors) == (1, "")
