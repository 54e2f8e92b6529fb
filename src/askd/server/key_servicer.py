"""KeyService: convert, call, convert."""

from typing import Any

import grpc

from askd.domain.errors import invalid
from askd.server import convert
from askd.server.interceptor import caller
from askd.service.keys import Keys
from askd.v1 import key_service_pb2 as pb
from askd.v1.key_service_pb2_grpc import KeyServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class KeyServicer(KeyServiceServicer):
    """See KeyService in protos/askd/v1/key_service.proto for what each method does."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def CreateKey(self, request: pb.CreateKeyRequest, context: Context) -> pb.CreateKeyResponse:
        """Make an API key."""
        span = convert.microseconds(request.expires_in, "expires_in") if request.HasField("expires_in") else None
        if span == 0:
            raise invalid("expires_in", "must be more than 0")
        key, secret = await self._keys.create(caller(), request.name, convert.grants(request.grants), span)
        return pb.CreateKeyResponse(key=convert.key_to_proto(key), secret=secret)

    async def ListKeys(self, request: pb.ListKeysRequest, context: Context) -> pb.ListKeysResponse:
        """List API keys."""
        keys = await self._keys.list_keys(caller())
        return pb.ListKeysResponse(keys=[convert.key_to_proto(key) for key in keys])

    async def RevokeKey(self, request: pb.RevokeKeyRequest, context: Context) -> pb.RevokeKeyResponse:
        """Revoke an API key."""
        return pb.RevokeKeyResponse(key=convert.key_to_proto(await self._keys.revoke(caller(), request.key_id)))

    async def GrantRole(self, request: pb.GrantRoleRequest, context: Context) -> pb.GrantRoleResponse:
        """Give a grant."""
        principal, grant = convert.principal(request.principal), convert.grant(request.grant, "grant")
        await self._keys.grant(caller(), principal, grant)
        return pb.GrantRoleResponse()

    async def RevokeRole(self, request: pb.RevokeRoleRequest, context: Context) -> pb.RevokeRoleResponse:
        """Take a grant."""
        principal, grant = convert.principal(request.principal), convert.grant(request.grant, "grant")
        await self._keys.ungrant(caller(), principal, grant)
        return pb.RevokeRoleResponse()

    async def ListGrants(self, request: pb.ListGrantsRequest, context: Context) -> pb.ListGrantsResponse:
        """List grants."""
        granted = await self._keys.list_grants(caller(), convert.principal(request.principal))
        return pb.ListGrantsResponse(grants=convert.grants_to_proto(granted))

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        """Say who calls."""
        me = caller()
        return pb.WhoAmIResponse(principal=str(me.principal), grants=convert.grants_to_proto(me.grants))
