"""Skips that nobody overlooks."""

from typing import NoReturn

import pytest


def skip_loudly(request: pytest.FixtureRequest, reason: str) -> NoReturn:
    """Skip, and say so also where nobody asks for the reasons of skips."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        request.config.get_terminal_writer().line(f"\nSKIPPED: {reason}", red=True, bold=True)
    pytest.skip(reason)
