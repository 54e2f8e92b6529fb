"""Every client gives the same verdicts (README.md)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conformance.drivers import LANGUAGES, Driver, chosen, require
from tests.conformance.places import Place, places
from tests.conformance.scenarios import Run, Step, scenarios

# Restarting servers takes seconds, and building a driver for the first time a minute or more.
pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

SCENARIOS = dict(scenarios())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The one server that every language is run against."""
    with places(tmp_path_factory.mktemp("server")) as running:
        yield running


class Drivers:
    """The driver of one language: built once, and started anew after a scenario that failed."""

    def __init__(self, language: str, folder: Path) -> None:
        self._command = LANGUAGES[language].build(folder)
        self._log = folder / "driver.log"
        self._driver: Driver | None = None

    @contextmanager
    def running(self) -> Iterator[Driver]:
        """A driver that is idle before and after the block, or ends with it."""
        driver = self._driver = self._driver or Driver(self._command, self._log)
        try:
            yield driver
        except BaseException as failure:
            self._driver = None
            driver.kill()
            failure.add_note(f"the driver wrote: {driver.logged()[-4000:]}")
            raise

    def finish(self) -> None:
        if self._driver is not None:
            self._driver.finish()


@pytest.fixture(scope="module", params=chosen())
def drivers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """The driver of each language. Where its tools are missing: a loud skip, and in CI a failure."""
    language = request.param
    require(language, request)
    running = Drivers(language, tmp_path_factory.mktemp(language))
    yield running
    running.finish()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_client_gives_the_same_verdicts(scenario: Step, place: Place, drivers: Drivers) -> None:
    place.ensure_running()
    with drivers.running() as driver:
        Run(scenario, place, driver).run()
