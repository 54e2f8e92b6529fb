"""How often may be consulted (CONTRACT section 8)."""

import pytest

from askd.advisors.rates import MovingRates
from askd.domain.errors import AskdError, Code


def refused(rates: MovingRates, workspace: str, provider: str) -> AskdError:
    with pytest.raises(AskdError) as raised:
        rates.take(workspace, provider)
    assert raised.value.code is Code.RATE_LIMITED
    return raised.value


def test_one_too_many_waits_until_the_first_is_old() -> None:
    rates = MovingRates(3, 3600)
    for _ in range(3):
        rates.take("w", "p")
    wait = refused(rates, "w", "p").retry_after
    assert wait is not None
    assert 3500 < wait <= 3600


def test_workspaces_and_providers_are_counted_apart_whatever_they_are_called() -> None:
    rates = MovingRates(1, 3600)
    names = [("a", "b"), ("b", "a"), ("a/b", "c"), ("a", "b/c"), ('a", "b', "c"), ("a", 'b", "c'), ("", "ab")]
    for workspace, provider in names:
        rates.take(workspace, provider)
    for workspace, provider in names:
        refused(rates, workspace, provider)


def test_what_was_refused_does_not_count() -> None:
    rates = MovingRates(1, 3600)
    rates.take("w", "p")
    first = refused(rates, "w", "p").retry_after
    second = refused(rates, "w", "p").retry_after
    assert first is not None
    assert second is not None
    assert second <= first
