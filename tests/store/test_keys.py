"""Rows of keys and grants (CONTRACT section 9)."""

from functools import partial

import pytest
from sqlalchemy.exc import SQLAlchemyError
from tests.store.databases import Store

from askd.domain.principals import Grant, Principal, PrincipalKind, Role
from askd.store import keys
from askd.store.keys import ApiKey

ADMIN = Grant(role=Role.ADMIN, workspace_id="*")
ASKER = Grant(role=Role.ASKER, workspace_id="w")
BOUND = Grant(role=Role.ASKER, workspace_id="w", session_id="s")
USER = Principal(kind=PrincipalKind.USER, id="ann: the first")


def key(identifier: str = "key_1", *grants: Grant, created_at: int = 1, expires_at: int | None = None) -> ApiKey:
    return ApiKey(
        id=identifier,
        name=f"name of {identifier}",
        grants=frozenset(grants),
        secret_hash=identifier.encode(),
        created_at=created_at,
        expires_at=expires_at,
    )


async def insert(store: Store, *added: ApiKey) -> None:
    for one in added:
        await store.database.write(partial(keys.insert, key=one))


async def test_a_key_comes_back_with_its_grants(store: Store) -> None:
    added = key("key_1", ADMIN, ASKER, BOUND, Grant(role=Role.VIEWER, workspace_id="w"), expires_at=7)
    await insert(store, added, key("key_2", ASKER))
    assert await store.read(partial(keys.load, key_id="key_1")) == added


async def test_a_key_may_have_no_grants(store: Store) -> None:
    await insert(store, key())
    assert await store.read(partial(keys.load, key_id="key_1")) == key()


async def test_an_unknown_key_is_nothing(store: Store) -> None:
    await insert(store, key())
    assert await store.read(partial(keys.load, key_id="key_2")) is None
    assert await store.read(partial(keys.load_many, ids=["", "key_2"])) == {}
    assert await store.read(partial(keys.load_many, ids=[])) == {}


async def test_many_keys_come_back_each_with_its_own_grants(store: Store) -> None:
    added = [key("key_1", ADMIN), key("key_2", ASKER, BOUND), key("key_3")]
    await insert(store, *added)
    assert await store.read(partial(keys.load_many, ids=["key_3", "key_2"])) == {"key_2": added[1], "key_3": added[2]}


async def test_keys_are_listed_oldest_first(store: Store) -> None:
    added = [key("key_b", created_at=1), key("key_c", ASKER, created_at=2), key("key_a", ADMIN, created_at=3)]
    await insert(store, added[2], added[0], added[1])
    assert await store.read(keys.load_all) == added


async def test_an_empty_database_has_no_keys(store: Store) -> None:
    assert not await store.read(keys.any_keys)
    await insert(store, key())
    assert await store.read(keys.any_keys)


async def test_a_key_ends_once(store: Store) -> None:
    await insert(store, key("key_1", ADMIN), key("key_2"))
    for now in (5, 6):
        await store.database.write(partial(keys.revoke, key_id="key_1", now=now))
    found = await store.read(keys.load_all)
    assert [one.revoked_at for one in found] == [5, None]
    assert found[0].grants == {ADMIN}


async def test_a_revoked_key_is_a_key(store: Store) -> None:
    await insert(store, key())
    await store.database.write(partial(keys.revoke, key_id="key_1", now=5))
    assert await store.read(keys.any_keys)


async def test_grants_are_given_once_and_taken_one_by_one(store: Store) -> None:
    for grant in (ASKER, BOUND, ASKER):
        await store.database.write(partial(keys.add_grant, principal=USER, grant=grant))
    assert await store.read(partial(keys.load_grants, principals=[USER])) == {USER: {ASKER, BOUND}}
    for _ in range(2):
        await store.database.write(partial(keys.remove_grant, principal=USER, grant=ASKER))
    assert await store.read(partial(keys.load_grants, principals=[USER])) == {USER: {BOUND}}


async def test_grants_are_found_of_each_principal_that_was_asked_for(store: Store) -> None:
    namesake = Principal(kind=PrincipalKind.API_KEY, id=USER.id)
    await store.database.write(partial(keys.add_grant, principal=USER, grant=ASKER))
    await store.database.write(partial(keys.add_grant, principal=namesake, grant=ADMIN))
    nobody = Principal(kind=PrincipalKind.USER, id="nobody")
    found = await store.read(partial(keys.load_grants, principals=[USER, namesake, nobody]))
    assert found == {USER: {ASKER}, namesake: {ADMIN}, nobody: frozenset()}
    assert await store.read(partial(keys.load_grants, principals=[])) == {}


async def test_a_key_of_which_something_is_refused_is_not_there_at_all(store: Store) -> None:
    await insert(store, key("key_1", ASKER))
    before = await store.rows()
    with pytest.raises(SQLAlchemyError):
        await insert(store, key("key_1", ADMIN))
    assert await store.rows() == before
