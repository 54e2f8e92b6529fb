"""The wheel and the source distribution: built, installed into an empty environment, and used there."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).with_name("buf")
LIMIT = 600.0  # seconds of any step
PROTOS = {f"askd/v1/{path.name}" for path in (ROOT / "protos/askd/v1").glob("*.proto")}


#: A program that asks with the client that was installed.
ASKING = """
import sys, askd
with askd.Client(*sys.argv[1:]) as client:
    print(client.ask("Which port?", session="s").id)
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command that succeeds writes to standard output."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    place = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", place, ROOT)
    return place


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment that the wheel alone was installed into."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=True)
    run(place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return place / "bin"


def test_the_wheel_carries_types_and_protos_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "askd/py.typed" in names
    assert {name.removeprefix("askd/protos/") for name in names if name.endswith(".proto")} == PROTOS
    assert all(name.startswith(("askd/", "askd-")) for name in names)


def test_the_source_distribution_carries_what_builds_it(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "src/askd/py.typed", *(f"protos/{proto}" for proto in PROTOS)} <= names
    assert not any(name.startswith(("tests/", "bench/", "clients/")) for name in names)


def test_the_program_says_its_version(installed: Path, wheel: Path) -> None:
    assert run(installed / "askd", "--version") == f"askd {wheel.name.split('-')[1]}\n"


def test_what_was_installed_serves(installed: Path, tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    command: list[str | Path] = [
        installed / "askd",
        "serve",
        "--data-dir",
        data,
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()
            assert ready.startswith("askd ready grpc="), log.read_text()
            key = (data / "admin.key").read_text().strip()
            asked = run(installed / "python", "-c", ASKING, ready.split("grpc=")[1].split()[0], key)
            assert asked.startswith("que_")
        finally:
            server.terminate()
        assert server.wait(LIMIT) == 0


def test_clients_of_other_languages_are_generated_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """buf reads its folder of protos as it reads the repository's, and makes the same of both."""
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path)
    images = [tmp_path / "wheel.binpb", tmp_path / "repository.binpb"]
    for image, protos in zip(images, [tmp_path / "askd/protos", ROOT / "protos"], strict=True):
        run(BUF, "build", protos, "-o", image)
    assert images[0].read_bytes() == images[1].read_bytes()
