"""Calls of KeyService that change grants."""

from typing import TYPE_CHECKING

from tests.clients import LIMIT, Client, span

from askd.v1 import key_service_pb2 as pb
from askd.v1.key_service_pb2_grpc import KeyServiceStub

if TYPE_CHECKING:
    from askd.v1.key_service_pb2_grpc import KeyServiceAsyncStub


def _keys(client: Client) -> "KeyServiceAsyncStub":
    stub: KeyServiceAsyncStub = KeyServiceStub(client.channel)
    return stub


async def give(client: Client, principal: str, granted: pb.Grant) -> None:
    request = pb.GrantRoleRequest(principal=principal, grant=granted)
    await _keys(client).GrantRole(request, metadata=client.metadata, timeout=LIMIT)


async def take(client: Client, principal: str, granted: pb.Grant) -> None:
    request = pb.RevokeRoleRequest(principal=principal, grant=granted)
    await _keys(client).RevokeRole(request, metadata=client.metadata, timeout=LIMIT)


async def grants_of(client: Client, principal: str) -> list[pb.Grant]:
    request = pb.ListGrantsRequest(principal=principal)
    return list((await _keys(client).ListGrants(request, metadata=client.metadata, timeout=LIMIT)).grants)


async def key_for(client: Client, seconds: float, *grants: pb.Grant) -> pb.CreateKeyResponse:
    request = pb.CreateKeyRequest(grants=grants, expires_in=span(seconds))
    return await _keys(client).CreateKey(request, metadata=client.metadata, timeout=LIMIT)
