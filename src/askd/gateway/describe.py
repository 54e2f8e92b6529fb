"""Words to describe routes in OpenAPI 3.1 with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC with Z."}
REVISION: Schema = {"type": "integer", "minimum": 0}
EXPIRES_IN: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 365 * 24 * 3600,
    "description": "Seconds after which the ask is cancelled as expired.",
}
#: Workspace, session and turn ids. Limits count UTF-8 bytes, which JSON Schema cannot say.
IDENTIFIER: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "pattern": r"^[^\u0000-\u001F\u007F]*$",
    "description": "1 to 128 bytes of UTF-8, not blank, no control characters.",
}

_REFUSALS = {
    400: "Something in the request is wrong; the message names it.",
    401: "No credential, or a bad one.",
    403: "The caller lacks the grant.",
    404: "There is no such thing, or the caller cannot see it.",
    405: "The path takes other methods; see Allow.",
    408: "The body did not come in time.",
    409: "The state of the ask, its turn or its session forbids it, or an id was used for something else.",
    410: "The revision's records have been removed.",
    413: "The body is over 2 MiB.",
    415: "The body is not application/json.",
    429: "Too many calls; see Retry-After.",
    500: "A fault of the server.",
    501: "The server does not offer this yet.",
    502: "The consulted model or its provider failed.",
    503: "The server is away, draining or full; see Retry-After.",
    504: "The server did not answer in time.",
}
_ALWAYS = (400, 401, 403, 404, 500, 503, 504)
_WITH_BODY = (408, 413, 415)


def ref(name: str) -> Schema:
    """A schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema, **more: Any) -> Schema:
    """An array of items."""
    return {"type": "array", "items": items, **more}


def words(*values: str) -> Schema:
    """One of some words."""
    return {"type": "string", "enum": list(values)}


def record(properties: Mapping[str, Schema], optional: Iterable[str] = (), **more: Any) -> Schema:
    """An object with these fields and no others."""
    required = [name for name in properties if name not in set(optional)]
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **more,
    }


def parameter(name: str, place: str, schema: Schema, description: str = "") -> dict[str, Any]:
    """A parameter in the path, the query or a header. Those of the path are required."""
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, "schema": schema, "description": description, **required}


def body(schema: Schema, example: Any, required: bool = True) -> dict[str, Any]:
    """A JSON body."""
    return {"required": required, "content": {"application/json": {"schema": schema, "example": example}}}


def success(
    description: str, schema: Schema, status: int = 200, links: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, Any]:
    """The JSON response of a request that succeeds. `links` are the parameters of operations that it leads to."""
    response: dict[str, Any] = {"description": description, "content": {"application/json": {"schema": schema}}}
    if links:
        response["links"] = {
            name: {"operationId": name, "parameters": dict(parameters)} for name, parameters in links.items()
        }
    return {str(status): response}


#: The id that a stream is resumed with; an empty one is none.
LAST_EVENT_ID: Schema = {"type": "string", "pattern": "^[0-9]{0,19}$"}


def events(description: str, names: Iterable[str], data: Schema) -> dict[str, Any]:
    """A stream of Server-Sent Events, each with one of these names and with data in JSON."""
    item = record(
        {
            "event": words(*names),
            "id": {"type": "string", "pattern": "^[0-9]+$", "description": "The revision to resume after."},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
            "retry": {"type": "integer", "description": "Milliseconds after which to come back."},
        },
        optional=["id", "retry"],
    )
    return {"200": {"description": description, "content": {"text/event-stream": {"schema": item}}}}


def refusals(errors: Mapping[int, Schema], statuses: Iterable[int]) -> dict[str, Any]:
    """The responses of requests that are refused; `errors` gives the body by status, under 0 that of all others."""
    return {
        str(status): {
            "description": _REFUSALS[status],
            "content": {"application/json": {"schema": errors.get(status, errors[0])}},
        }
        for status in sorted(statuses)
    }


def operation(
    name: str,
    tag: str,
    summary: str,
    *,
    answers: Mapping[str, Any],
    errors: Mapping[int, Schema],
    statuses: Sequence[int] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
    request: Mapping[str, Any] | None = None,
    description: str = "",
) -> dict[str, Any]:
    """An operation: what succeeds (`answers`), and what is refused with which further `statuses`."""
    refused = refusals(errors, {*_ALWAYS, *statuses, *(_WITH_BODY if request else ())})
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        **({"description": description} if description else {}),
        **({"parameters": list(parameters)} if parameters else {}),
        **({"requestBody": request} if request else {}),
        "responses": {**answers, **refused},
    }
