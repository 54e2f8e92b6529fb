"""The OpenAPI document, put together from the routes themselves, so that none is missing."""

from collections.abc import Iterable
from typing import Any

from askd.gateway import operations, schemas_a, schemas_b, schemas_opencode, schemas_requests
from askd.gateway.routing import Dialect

_ABOUT = """\
Questions that programs ask and people answer, as REST. The same store is served over gRPC (package askd.v1).

Every path takes `Authorization: Bearer CREDENTIAL`, or Basic with the credential as the password. Identifiers in a path
are percent-encoded and are decoded exactly once. Bodies are JSON in UTF-8 of at most 2 MiB, read strictly: unknown
fields, duplicate keys and values of another type are errors."""
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "The credential is the password; any user name."},
}


def document(dialects: Iterable[Dialect], version: str) -> dict[str, Any]:
    """The description of every route."""
    paths: dict[str, dict[str, Any]] = {}
    for dialect in dialects:
        for route in dialect.routes:
            paths.setdefault(route.path, {})[route.method.lower()] = dict(route.description)
    modules = (schemas_a, schemas_requests, schemas_b, schemas_opencode, operations)
    return {
        "openapi": "3.1.0",
        "info": {"title": "askd", "version": version, "description": _ABOUT},
        "tags": [{"name": module.TAG} for module in (schemas_a, schemas_b, schemas_opencode, operations)],
        "security": [{name: []} for name in _SECURITY],
        "paths": paths,
        "components": {
            "schemas": {name: schema for module in modules for name, schema in module.SCHEMAS.items()},
            "securitySchemes": _SECURITY,
        },
    }
