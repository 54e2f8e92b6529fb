"""Asks, and commands to make and resolve them, with what a test does not care about filled in."""

from itertools import count
from typing import Any

from tests.domain.samples import Object, choice_question, option, parsed, text_question

from askd.domain.answers import ChoiceSubmission, Submission
from askd.domain.asks import (
    AnswerWith,
    Ask,
    AskDraft,
    CreateAsk,
    RejectWith,
    Resolution,
    ResolveAsk,
    Withdraw,
    create,
    resolve,
)
from askd.domain.errors import AskdError
from askd.domain.principals import Access, Principal, PrincipalKind, Role
from askd.domain.validation import check_questions

ANN = Principal(kind=PrincipalKind.USER, id="ann")
BOB = Principal(kind=PrincipalKind.USER, id="bob")
KEY = Principal(kind=PrincipalKind.API_KEY, id="key_1")
CREATED_AT = 1_700_000_000_000_000
RESOLVED_AT = 1_700_000_060_500_000

CHOICE = choice_question(option("a", value=1), option("b", value=None), multiple=True, allowCustom=True)


def access(*roles: Role, principal: Principal = ANN, workspace_id: str = "w", session_id: str = "") -> Access:
    """Somebody with roles in all sessions of a workspace, or in one."""
    return Access(principal=principal, workspace_id=workspace_id, roles={session_id: frozenset(roles)})


ASKER = access(Role.ASKER, principal=KEY)
ANSWERER = access(Role.ANSWERER, Role.VIEWER)


def draft(*questions: Object, **changes: Any) -> AskDraft:
    checked = check_questions(parsed(*(questions or (text_question(),))))
    places = {"session_id": "s", "turn_id": "t", "tool": None}
    return AskDraft(questions=checked, **{**places, **changes})


def asking(contents: AskDraft | AskdError, request_id: str | None = None, ask_id: str = "que_1") -> CreateAsk:
    return CreateAsk(access=ASKER, ask_id=ask_id, request_id=request_id, draft=contents)


def asked(*questions: Object, revision: int = 1, **changes: Any) -> Ask:
    """A pending ask."""
    contents = draft(*questions, **changes)
    return create(asking(contents), contents, CREATED_AT, revision)


def answering(*submissions: Submission, answer_id: str = "answer-1") -> AnswerWith:
    return AnswerWith(answer_id=answer_id, submissions=submissions)


def choosing(*ids: str, **texts: str) -> ChoiceSubmission:
    return ChoiceSubmission(selected_ids=ids, **texts)


def resolving(resolution: Resolution, by: Access | None = None, **changes: str) -> ResolveAsk:
    """A command of its own id, by somebody who may give it."""
    caller = by or (ASKER if isinstance(resolution, Withdraw) else ANSWERER)
    fields = {"id": f"cmd_{next(_numbers)}", "ask_id": "que_1", "session_id": "", "turn_id": "", **changes}
    return ResolveAsk(access=caller, resolution=resolution, **fields)


_numbers = count()


def resolved(ask: Ask | None, resolution: Resolution, by: Access | None = None, **changes: str) -> Ask:
    """What becomes of an ask by a command."""
    return resolve(resolving(resolution, by, **changes), ask, RESOLVED_AT, 7)


#: Each way to resolve an ask of one text question, and the status that it leads to.
WAYS: dict[str, Resolution] = {
    "answered": answering("yes"),
    "rejected": RejectWith(reason="no time"),
    "cancelled": Withdraw(),
}
