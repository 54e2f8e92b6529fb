"""The OpenAPI document as one page of HTML, which loads nothing and runs nothing."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

#: The page needs its own styles and nothing else, from nowhere.
HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)
_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem } summary { cursor: pointer; padding: .4rem 0 }
code, pre { font: 14px/1.45 ui-monospace, monospace } pre { overflow-x: auto; padding: .8rem; background: #8882 }
.method { display: inline-block; width: 3.2rem; font-weight: 600 } .path { margin-right: 1rem }
table { border-collapse: collapse } td { padding: .1rem 1rem .1rem 0; vertical-align: top }
"""


def render(document: dict[str, Any]) -> bytes:
    """The page."""
    return "\n".join(_lines(document)).encode()


def _lines(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>"
    yield f"<style>{_STYLE}</style><h1>{escape(info['title'])} {escape(info['version'])}</h1>"
    yield from (f"<p>{escape(paragraph)}</p>" for paragraph in info["description"].split("\n\n"))
    yield "<p>For programs: <a href=openapi.json>openapi.json</a></p>"
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    yield from _operation(method, path, operation)
    yield "<h2>Schemas</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield f"<details id={escape(name)}><summary><code>{escape(name)}</code></summary>{_code(schema)}</details>"
    yield "</html>"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<details><summary><code class=method>{method.upper()}</code><code class=path>{escape(path)}</code>"
    yield f"{escape(operation['summary'])}</summary><p>{escape(operation.get('description', ''))}</p>"
    yield from _table("Parameters", [(p["name"], f"{p['in']}: {p['description']}") for p in _parameters(operation)])
    if "requestBody" in operation:
        yield f"<p>Body</p>{_code(operation['requestBody']['content']['application/json'])}"
    responses = operation["responses"].items()
    yield from _table("Responses", [(status, response["description"]) for status, response in responses])
    for status, response in responses:
        if status.startswith("2"):
            yield from (f"<p>{status}: {escape(kind)}</p>{_code(c['schema'])}" for kind, c in _contents(response))
    yield "</details>"


def _parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return list(operation.get("parameters", []))


def _contents(response: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(response["content"].items())


def _table(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        cells = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(text)}" for name, text in rows)
        yield f"<p>{title}</p><table>{cells}</table>"


def _code(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
