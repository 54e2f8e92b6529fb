"""What would break clients is noticed: `make breaking` compares with the last release (see CONTRIBUTING.md)."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).with_name("buf")
BASELINE = ROOT / "protos" / "baseline.binpb"


def breaking(place: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BUF), "breaking", "--against", str(BASELINE)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=50, check=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the protos that a test may change."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def test_the_protos_break_no_client_of_the_last_release(place: Path) -> None:
    done = breaking(place)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("ask.proto", "optional string title = 2", "optional string title = 92"),
        ("ask.proto", "optional string title = 2", "optional string heading = 2"),
        ("ask.proto", "optional string title = 2", "string title = 2"),
        ("ask.proto", "ASK_STATUS_REJECTED", "ASK_STATUS_REFUSED"),
        ("ask_service.proto", "rpc WaitAsk(WaitAskRequest)", "rpc AwaitAsk(WaitAskRequest)"),
        ("ask_service.proto", "int32 limit", "int64 limit"),
    ],
    ids=["number", "field", "presence", "enum value", "method", "type"],
)
def test_a_change_that_breaks_clients_is_noticed(place: Path, file: str, old: str, new: str) -> None:
    proto = place / "protos" / "askd" / "v1" / file
    said = proto.read_text()
    assert old in said
    proto.write_text(said.replace(old, new))
    assert breaking(place).returncode == 100


def test_additions_break_nobody(place: Path) -> None:
    proto = place / "protos" / "askd" / "v1" / "ask.proto"
    proto.write_text(proto.read_text() + "\n// More.\nmessage More {\n  // What.\n  string what = 1;\n}\n")
    assert breaking(place).returncode == 0
