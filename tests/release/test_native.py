"""The clients' own tests, written in their languages, against this repository's server."""

import subprocess

import pytest
from tests.conformance.drivers import ROOT, chosen, require
from tests.processes import PROGRAM, environment

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

LIMIT = 800.0  # seconds, building included

SUITES = {
    "typescript": (ROOT, "make typescript && cd clients/typescript && node --test dist/test/*.test.js"),
    "go": (ROOT / "clients" / "go", 'go vet ./... && test -z "$(gofmt -l .)" && go test ./...'),
}


@pytest.mark.parametrize("language", [language for language in chosen() if language in SUITES])
def test_a_client_passes_its_own_tests(language: str, request: pytest.FixtureRequest) -> None:
    require(language, request)
    folder, command = SUITES[language]
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=environment(ASKD_BIN=str(PROGRAM)), capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-20_000:]}{done.stderr[-20_000:]}"
