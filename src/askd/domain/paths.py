"""Where in a question something lies. Most values are fine, so a path is put together only when one is not."""

from typing import TypeAlias

#: The text of a path, or the path of an array or object with an index or key in it.
Path: TypeAlias = "str | tuple[Path, int | str]"


def render(path: Path) -> str:
    """The text of a path, like `questions[2].options[0].value.size`."""
    if isinstance(path, str):
        return path
    parent, step = path
    return f"{render(parent)}[{step}]" if isinstance(step, int) else f"{render(parent)}.{step}"
