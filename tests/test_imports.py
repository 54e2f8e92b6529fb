"""Imports point one way (DESIGN, The house)."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import askd

ROOT = Path(askd.__file__).parent
GENERATED = ROOT / "v1"

#: What each package may import of askd, itself aside. `askd` stands for the package's own __init__ and for `config`.
MAY_IMPORT = {
    "domain": set(),
    "store": {"domain"},
    "service": {"domain", "store"},
    "advisors": {"domain", "config"},
    "v1": set(),
    "wire": {"domain", "v1"},
    "server": {"domain", "store", "service", "advisors", "wire", "v1", "config"},
    "client": {"domain", "wire", "v1"},
    "gateway": {"domain", "wire", "v1", "client", "config"},
    "cli": {"domain", "store", "service", "advisors", "wire", "v1", "server", "client", "gateway", "config"},
    "config": set(),
    "": {"domain", "client"},
}
#: What the client and the gateway may know of the domain: what a question and an answer are, and no rule about asks.
QUESTIONS_ONLY = {
    "questions",
    "labels",
    "parsing",
    "validation",
    "answers",
    "canonical",
    "errors",
    "limits",
    "text",
    "paths",
}
#: Third-party packages that only some packages may import.
KEPT_TO = {
    "sqlalchemy": {"store", "service", "server", "cli"},
    "alembic": {"store"},
    "asyncpg": {"store"},
    "grpc": {"server", "client", "gateway", "cli"},
    "google": {"server", "client", "gateway", "wire", "cli"},
    "fastapi": {"gateway"},
    "starlette": {"gateway"},
    "uvicorn": {"gateway", "cli"},
    "typer": {"cli"},
    "rich": {"cli"},
    "pydantic_settings": {"config"},
}


def modules(*packages: str) -> list[Path]:
    """Every module that is written by hand, of some packages where they are named."""
    written = [path for path in sorted(ROOT.rglob("*.py")) if GENERATED not in path.parents]
    return [path for path in written if not packages or package_of(path) in packages]


def package_of(path: Path) -> str:
    """The package, or the module beside them, that a file belongs to; empty for askd's own __init__."""
    first = path.relative_to(ROOT).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


@cache
def imports(path: Path) -> list[str]:
    """The dotted names of everything that a module imports, wherever in it."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def askd_parts(name: str) -> list[str]:
    """The parts of a name in askd, without `askd`; none for a name elsewhere."""
    first, *rest = name.split(".")
    return rest if first == "askd" else []


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def every(*packages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", modules(*packages), ids=ids)


def test_every_package_has_its_rule() -> None:
    assert {package_of(path) for path in modules()} <= MAY_IMPORT.keys()


@every()
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(path)
    imported = {parts[0] for name in imports(path) if (parts := askd_parts(name))}
    assert imported - {package} <= MAY_IMPORT[package]


@every("client", "gateway")
def test_the_outside_knows_of_questions_and_answers_only(path: Path) -> None:
    known = {parts[1] for name in imports(path) if (parts := askd_parts(name))[:1] == ["domain"]}
    assert known <= QUESTIONS_ONLY


@every("domain")
def test_the_domain_is_pure(path: Path) -> None:
    imported = {name.split(".")[0] for name in imports(path)}
    assert imported - sys.stdlib_module_names <= {"askd", "rfc8785"}
    assert not imported & {"asyncio", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "threading", "time"}


@pytest.mark.parametrize("library", list(KEPT_TO))
def test_a_library_stays_where_it_belongs(library: str) -> None:
    users = {package_of(path) for path in modules() if library in {name.split(".")[0] for name in imports(path)}}
    assert users <= KEPT_TO[library]


def packages() -> list[Path]:
    return sorted(path for path in ROOT.rglob("__init__.py"))


@pytest.mark.parametrize("path", packages(), ids=ids)
def test_every_package_says_in_one_line_what_it_is_for(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text()))
    assert said
    assert "\n" not in said
    assert said.endswith(".")
    assert path.read_text().startswith('"""')


def test_every_module_says_what_it_is() -> None:
    assert [ids(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))] == []
