"""Commands with what a test does not care about filled in."""

from collections.abc import Sequence
from itertools import count

from askd.domain.answers import ChoiceSubmission, Submission
from askd.domain.asks import AnswerWith, Ask, AskDraft, CreateAsk, RejectWith, ResolveAsk, ToolCall, Withdraw
from askd.domain.errors import AskdError
from askd.domain.principals import Access, Caller, Grant, Principal, PrincipalKind, Role
from askd.domain.questions import ChoiceQuestion, Option, Question, TextPart, TextQuestion
from askd.domain.validation import check_questions

ANN = Principal(kind=PrincipalKind.API_KEY, id="key_ann")
BOB = Principal(kind=PrincipalKind.API_KEY, id="key_bob")

_numbers = count(1)


def new_id(prefix: str = "") -> str:
    """A server-made id. Such sort by creation only roughly, so these do not at all."""
    return f"{prefix}{next(_numbers) * 7919 % 10**9:026d}"


def access(*roles: Role, workspace: str = "w", by: Principal = ANN) -> Access:
    """What somebody may do in a workspace; everything, where no roles are named."""
    grants = frozenset(Grant(role=role, workspace_id=workspace) for role in roles or (Role.ADMIN,))
    return Caller(principal=by, grants=grants).enter(workspace)


def text_question(prompt: str = "?") -> Question:
    return TextQuestion(prompt=(TextPart(text=prompt),))


def choice_question(*ids: str, multiple: bool = False, custom: bool = False, notes: bool = False) -> Question:
    """A choice of options whose values are objects that name their ids."""
    options = tuple(Option(id=item, label=item.upper(), value={"is": item}) for item in ids or ("a", "b", "c"))
    return ChoiceQuestion(prompt=(), options=options, multiple=multiple, allow_custom=custom, allow_notes=notes)


def draft(
    *questions: Question,
    session: str = "s",
    turn: str | None = None,
    tool: ToolCall | None = None,
    expires_in: int | None = None,
) -> AskDraft:
    return AskDraft(
        session_id=session,
        turn_id=turn,
        questions=check_questions(questions or (text_question(),)),
        tool=tool,
        expires_in=expires_in,
    )


def create(
    *questions: Question,
    workspace: str = "w",
    session: str = "s",
    turn: str | None = None,
    tool: ToolCall | None = None,
    expires_in: int | None = None,
    request_id: str | None = None,
    by: Access | None = None,
    wrong: AskdError | None = None,
) -> CreateAsk:
    """Ask. `wrong` is what is wrong with the draft."""
    contents = wrong or draft(*questions, session=session, turn=turn, tool=tool, expires_in=expires_in)
    caller = by or access(workspace=workspace)
    return CreateAsk(access=caller, ask_id=new_id("que_"), request_id=request_id, draft=contents)


def answer(
    ask: Ask | CreateAsk | str,
    *submissions: Submission,
    answer_id: str | AskdError = "answer",
    by: Access | None = None,
    session: str = "",
    turn: str = "",
    wrong: AskdError | None = None,
) -> ResolveAsk:
    """Answer, with "yes" where nothing else is said. `wrong` is what is wrong with the submissions."""
    resolution = AnswerWith(answer_id=answer_id, submissions=wrong or submissions or ("yes",))
    return _resolve(ask, resolution, by, session, turn)


def reject(ask: Ask | CreateAsk | str, reason: str | AskdError | None = None, by: Access | None = None) -> ResolveAsk:
    return _resolve(ask, RejectWith(reason=reason), by)


def withdraw(ask: Ask | CreateAsk | str, by: Access | None = None) -> ResolveAsk:
    return _resolve(ask, Withdraw(), by)


def _resolve(
    ask: Ask | CreateAsk | str,
    resolution: AnswerWith | RejectWith | Withdraw,
    by: Access | None,
    session: str = "",
    turn: str = "",
) -> ResolveAsk:
    match ask:
        case Ask():
            ask_id, workspace = ask.id, ask.workspace_id
        case CreateAsk():
            ask_id, workspace = ask.ask_id, ask.access.workspace_id
        case _:
            ask_id, workspace = ask, "w"
    caller = by or access(workspace=workspace)
    return ResolveAsk(
        access=caller, id=new_id(), ask_id=ask_id, session_id=session, turn_id=turn, resolution=resolution
    )


def choosing(*ids: str, custom: str | None = None, notes: str | None = None) -> ChoiceSubmission:
    return ChoiceSubmission(selected_ids=ids, custom=custom, notes=notes)


def submissions_to(questions: Sequence[Question]) -> list[Submission]:
    """Some valid submissions."""
    return [
        "a text" if isinstance(question, TextQuestion) else choosing(question.options[-1].id) for question in questions
    ]
