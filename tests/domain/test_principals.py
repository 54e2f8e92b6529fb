"""Who may do what where: roles, grants and the workspace that is meant (CONTRACT sections 6 and 9)."""

from collections.abc import Callable
from functools import partial

import pytest
from tests.domain.samples import refusal

from askd.domain.errors import AskdError, Code
from askd.domain.principals import Access, Caller, Grant, Principal, PrincipalKind, Role

KEY = Principal(kind=PrincipalKind.API_KEY, id="key_1")


def grant(role: Role = Role.ASKER, workspace_id: str = "w", session_id: str = "") -> Grant:
    return Grant(role=role, workspace_id=workspace_id, session_id=session_id)


def caller(*grants: Grant) -> Caller:
    return Caller(principal=KEY, grants=frozenset(grants))


def denied(call: Callable[[], object], said: str) -> None:
    assert said in refusal(call, Code.PERMISSION_DENIED, "").message


def entered(workspace_id: str, *grants: Grant) -> Access:
    return caller(*grants).enter(workspace_id)


def permitted(access: Access, session_id: str = "s") -> set[Role]:
    """The roles that the access lets its caller act in."""
    return {role for role in Role if not is_denied(partial(access.require, role, session_id))}


def is_denied(call: Callable[[], object]) -> bool:
    try:
        call()
    except AskdError as error:
        return error.code is Code.PERMISSION_DENIED
    return False


# --- roles ---


@pytest.mark.parametrize(
    ("role", "included"),
    [
        (Role.ASKER, {Role.ASKER}),
        (Role.VIEWER, {Role.VIEWER}),
        (Role.ANSWERER, {Role.ANSWERER, Role.VIEWER}),
        (Role.ADMIN, {Role.ASKER, Role.VIEWER, Role.ANSWERER, Role.ADMIN}),
    ],
)
def test_a_role_includes_what_the_contract_says_and_no_more(role: Role, included: set[Role]) -> None:
    assert permitted(entered("w", grant(role))) == included


def test_a_missing_role_is_named() -> None:
    denied(partial(entered("w", grant(Role.VIEWER)).require, Role.ANSWERER, "s"), "answerer")


def test_roles_of_several_grants_add_up() -> None:
    access = entered("w", grant(Role.ASKER), grant(Role.ANSWERER))
    assert (access.principal, access.workspace_id) == (KEY, "w")
    assert permitted(access) == {Role.ASKER, Role.ANSWERER, Role.VIEWER}


def test_a_role_holds_in_its_workspace_alone() -> None:
    assert permitted(entered("w", grant(Role.VIEWER), grant(Role.ADMIN, "other"))) == {Role.VIEWER}


def test_a_role_for_all_workspaces_holds_in_each() -> None:
    assert permitted(entered("w", grant(Role.ASKER, "*"), grant(Role.VIEWER))) == {Role.ASKER, Role.VIEWER}


def test_a_role_for_one_session_holds_there_alone() -> None:
    access = entered("w", grant(Role.ANSWERER, "*", "s"), grant(Role.ASKER, "w", "r"))
    assert permitted(access, "s") == {Role.ANSWERER, Role.VIEWER}
    assert permitted(access, "r") == {Role.ASKER}
    assert permitted(access, "other") == set()


def test_a_session_is_seen_with_any_role_in_it() -> None:
    access = entered("w", grant(Role.ASKER, "w", "s"), grant(Role.VIEWER, "w", "r"))
    assert [access.sees(session) for session in ("s", "r", "other")] == [True, True, False]
    assert access.sessions == frozenset({"s", "r"})


def test_all_sessions_are_seen_with_a_role_in_all() -> None:
    access = entered("w", grant(Role.ASKER, "w", "s"), grant(Role.VIEWER, "*"))
    assert access.sees("other")
    assert access.sessions is None


def test_an_access_covers_one_that_sees_no_more() -> None:
    everything, both = entered("w", grant()), entered("w", grant(session_id="s"), grant(session_id="r"))
    one, other = entered("w", grant(session_id="s")), entered("w", grant(session_id="q"))
    assert everything.covers(everything)
    assert everything.covers(one)
    assert both.covers(one)
    assert not one.covers(both)
    assert not both.covers(other)
    assert not both.covers(everything)


def test_an_access_ends_with_its_caller_s_credential() -> None:
    passing = Caller(principal=KEY, grants=frozenset({grant()}), expires_at=5)
    assert passing.enter("w").expires_at == 5
    assert entered("w", grant()).expires_at is None


# --- entering a workspace ---


def test_a_named_workspace_without_a_grant_is_denied() -> None:
    denied(lambda: entered("other", grant(Role.ADMIN)), "workspace")
    denied(lambda: entered("w"), "workspace")


def test_denial_comes_before_the_name_is_looked_at() -> None:
    denied(lambda: entered("\x00", grant()), "workspace")


@pytest.mark.parametrize("workspace_id", [" ", "\x00", "x" * 129])
def test_a_caller_of_all_workspaces_must_name_one_that_can_be(workspace_id: str) -> None:
    refusal(lambda: entered(workspace_id, grant(Role.ADMIN, "*")), Code.INVALID_ARGUMENTS, "workspace_id")


def test_an_unnamed_workspace_is_the_one_that_all_grants_name() -> None:
    assert entered("", grant(Role.ASKER), grant(Role.VIEWER)).workspace_id == "w"


def test_an_unnamed_workspace_is_default_where_any_grant_is_for_all() -> None:
    access = entered("", grant(Role.ASKER, "*"), grant(Role.ADMIN), grant(Role.VIEWER, "other"))
    assert access.workspace_id == "default"
    assert permitted(access) == {Role.ASKER}


def test_an_unnamed_workspace_is_invalid_where_grants_name_several_or_none() -> None:
    several = [grant(), grant(workspace_id="other")]
    refusal(lambda: entered("", *several), Code.INVALID_ARGUMENTS, "workspace_id", "name it")
    refusal(lambda: entered(""), Code.INVALID_ARGUMENTS, "workspace_id", "name it")


# --- administration ---


def test_an_admin_of_all_workspaces_administers_everything() -> None:
    admin = caller(grant(Role.ADMIN, "*"))
    assert admin.administers(frozenset({grant(Role.ADMIN, "*"), grant()}))
    assert admin.administers(frozenset())


def test_a_workspace_s_admin_administers_what_lies_wholly_inside() -> None:
    admin = caller(grant(Role.ADMIN), grant(Role.ADMIN, "v"), grant(Role.ASKER, "x"))
    assert admin.administers(frozenset({grant(Role.ADMIN), grant(Role.ASKER, "v")}))
    assert not admin.administers(frozenset({grant(), grant(workspace_id="x")}))
    assert not admin.administers(frozenset({grant(workspace_id="*")}))
    assert not admin.administers(frozenset()), "what holds no grants lies nowhere"


@pytest.mark.parametrize("role", [Role.ASKER, Role.VIEWER, Role.ANSWERER])
def test_no_other_role_administers(role: Role) -> None:
    other = caller(grant(role, "*"))
    assert not other.administers(frozenset({grant()}))
    denied(other.require_admin, "admin")


def test_an_admin_of_one_session_manages_nothing() -> None:
    admin = caller(grant(Role.ADMIN, "w", "s"))
    assert admin.administered == frozenset()
    assert not admin.administers(frozenset({grant(Role.ASKER, "w", "s")}))
    denied(admin.require_admin, "admin")


def test_a_workspace_s_admin_administers_grants_for_its_sessions() -> None:
    admin = caller(grant(Role.ADMIN))
    assert admin.administered == {"w"}
    assert admin.administers(frozenset({grant(Role.ADMIN, "w", "s")}))


def test_an_admin_of_any_workspace_is_an_admin() -> None:
    caller(grant(Role.ASKER, "*"), grant(Role.ADMIN)).require_admin()
    denied(caller().require_admin, "admin")


# --- principals ---


@pytest.mark.parametrize(
    ("principal", "text"),
    [
        (KEY, "key:key_1"),
        (Principal(kind=PrincipalKind.USER, id="ann@example.com"), "user:ann@example.com"),
        (Principal(kind=PrincipalKind.USER, id="key:a:b"), "user:key:a:b"),
    ],
)
def test_a_principal_reads_back_from_its_text(principal: Principal, text: str) -> None:
    assert str(principal) == text
    assert Principal.parse(text) == principal


def test_a_user_and_a_key_of_one_id_are_two_principals() -> None:
    assert Principal(kind=PrincipalKind.USER, id="key_1") != KEY
