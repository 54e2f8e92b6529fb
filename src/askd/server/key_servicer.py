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
        if request.HasField("expires_in"):
            raise invalid("expires_in", "keys that expire are not supported")
        key, secret = await self._keys.create(caller(), request.name, convert.grants(request.grants))
        return pb.CreateKeyResponse(key=convert.key_to_proto(key), secret=secret)

    async def ListKeys(self, request: pb.ListKeysRequest, context: Context) -> pb.ListKeysResponse:
        """List API keys."""
        keys = await self._keys.list_keys(caller())
        return pb.ListKeysResponse(keys=[convert.key_to_proto(key) for key in keys])

    async def RevokeKey(self, request: pb.RevokeKeyRequest, context: Context) -> pb.RevokeKeyResponse:
        """Revoke an API key."""
        return pb.RevokeKeyResponse(key=convert.key_to_proto(await self._keys.revoke(caller(), request.key_id)))

    async def WhoAmI(self, request: pb.WhoAmIRequest, context: Context) -> pb.WhoAmIResponse:
        """Say who calls."""
        me = caller()
        return pb.WhoAmIResponse(principal=str(me.principal), grants=convert.grants_to_proto(me.grants))
