"""Users whose names PostgreSQL cannot hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.access.issuer import AUDIENCE, ISSUER, Issuer
from tests.access.managing import give, grants_of
from tests.clients import grant, refusal
from tests.servers import served


@pytest.mark.parametrize("subject", ["a\0da", "\0", "ada\n"])
async def test_a_subject_with_control_characters_is_nobody(url: str, tmp_path: Path, subject: str) -> None:
    """U+0000, which SQLite holds and PostgreSQL does not, was answered here as if the database were away."""
    issuer, jwks = Issuer(), tmp_path / "jwks.json"
    jwks.write_text(json.dumps(issuer.key_set()))
    options: dict[str, Any] = {
        "database": {"url": url},
        "users": {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(jwks), "algorithms": ["ES256"]},
    }
    (tmp_path / "data").mkdir(mode=0o700)
    async with served(tmp_path / "data", **options) as server:
        admin = server.admin
        assert (await refusal(admin.other(issuer.token(subject)).who_am_i())).reason == "unauthenticated"
        refused = await refusal(give(admin, f"user:{subject}", grant("viewer", "w")))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("principal",))
        await give(admin, "user:ada", grant("viewer", "w"))
        assert await grants_of(admin, "user:ada") == [grant("viewer", "w")]
        assert (await admin.other(issuer.token()).who_am_i()).principal == "user:ada"
