"""Ids: what a library of ULIDs reads in them."""

from datetime import UTC, datetime, timedelta

from ulid import ULID

from askd.service.ids import new_ulid


def test_an_id_is_a_ulid_of_now_in_lower_case() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = new_ulid()
    assert before <= ULID.from_str(made.upper()).datetime <= datetime.now(UTC)
    assert made == str(ULID.from_str(made.upper())).lower()


def test_ids_differ_in_all_their_random_bits() -> None:
    randoms = [int.from_bytes(ULID.from_str(new_ulid().upper()).bytes[6:]) for _ in range(1000)]
    assert len(set(randoms)) == 1000
    for bit in range(80):
        assert {number >> bit & 1 for number in randoms} == {0, 1}
