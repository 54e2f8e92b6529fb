"""What is shown to people. Texts of others are untrusted: they cannot drive the terminal, nor reorder what it shows."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_KEPT = "\n\t"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_REORDERING = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_BREAKS = [0x2028, 0x2029]
_SURROGATES = range(0xD800, 0xE000)
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS if chr(code) not in _KEPT} | {
    code: f"\\u{code:04x}" for code in [*_REORDERING, *_BREAKS, *_SURROGATES]
}

ELLIPSIS = "…"
PIPED_WIDTH = 200  # columns, where there is no terminal to ask


def block(text: str) -> str:
    """A text that may have several lines, its control characters made visible."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def line(text: str) -> str:
    """A text as one line, its control characters made visible."""
    return block(text).replace("\n", " ").replace("\t", " ")


def excerpt(text: str, limit: int) -> str:
    """The beginning of a text as one line of at most `limit` characters, runs of white space as one space."""
    words = line(" ".join(text[: limit * 4].split()))
    return words if len(words) <= limit else words[: limit - 1] + ELLIPSIS


def console() -> "Console":
    """Standard output. Colour on a terminal only and never against NO_COLOR; no markup is interpreted."""
    from rich.console import Console

    output = Console(markup=False, emoji=False, highlight=False)
    if not output.is_terminal and "COLUMNS" not in os.environ:
        output.width = PIPED_WIDTH
    return output
