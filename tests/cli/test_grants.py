"""`askd grants`, with a real server (CONTRACT section 9)."""

import pytest
from tests.cli.program import Program


@pytest.fixture
def workspace(askd: Program) -> str:
    """The test's workspace."""
    return askd.settings["ASKD_WORKSPACE"]


def test_a_role_is_given_listed_and_taken(askd: Program, workspace: str) -> None:
    made = askd.json("keys", "create", "k", "--grant", f"viewer@{workspace}")
    principal, own = f"key:{made['key']['id']}", Program(askd.settings | {"ASKD_KEY": made["secret"]})
    viewer, asker = (
        {"role": "viewer", "workspaceId": workspace},
        {"role": "asker", "workspaceId": workspace, "sessionId": "s"},
    )
    assert own.run("ask", "s", "x").code == 1
    given = ("grants", "add", principal, f"asker@{workspace}", "--session", "s")
    assert askd.json(*given) == askd.json(*given) == {"principal": principal, "grant": asker}
    own.text("ask", "s", "x")
    assert own.run("ask", "other", "x").errors.startswith("error: permission_denied: ")
    listed = askd.json("grants", "list", principal)
    assert listed["principal"] == principal
    assert sorted(listed["grants"], key=lambda grant: str(grant["role"])) == [asker, viewer]
    askd.text("grants", "remove", principal, f"asker@{workspace}", "--session", "s")
    assert own.run("ask", "s", "x").errors.startswith("error: permission_denied: ")
    assert askd.json("grants", "list", principal)["grants"] == [viewer]


def test_people_read_a_grant_a_line(askd: Program) -> None:
    assert askd.text("grants", "add", "user:Ada", "admin@*") == "added  user:Ada  admin@*\n"
    bound = ("user:Ada", "viewer@a b", "--session", "s")
    assert askd.text("grants", "add", *bound) == "added  user:Ada  viewer@a b (session s)\n"
    assert set(askd.text("grants", "list", "user:Ada").splitlines()) == {"admin@*", "viewer@a b (session s)"}
    assert askd.text("grants", "remove", *bound) == "removed  user:Ada  viewer@a b (session s)\n"
    assert askd.text("grants", "remove", "user:Ada", "admin@*") == "removed  user:Ada  admin@*\n"
    assert askd.text("grants", "list", "user:Ada") == ""


def test_refusals_and_wrong_usage(askd: Program) -> None:
    assert askd.run("grants", "list", "Ada").errors.startswith("error: invalid_arguments: ")
    assert askd.run("grants", "add", "user:Ada", "viewer@").errors.startswith("error: invalid_arguments: ")
    for arguments in (["add", "user:Ada"], ["remove", "user:Ada", "viewer"], ["add", "user:Ada", "king@a"], ["list"]):
        assert askd.run("grants", *arguments).code == 2
