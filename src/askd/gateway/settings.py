"""What can be set about the gateway."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewaySettings:
    """Settings of the gateway. Times are seconds."""

    cors_origins: tuple[str, ...] = ()
    """The origins whose pages may call, each like https://host:port; "*" for all, then without browser credentials."""
    call_timeout: float = 30.0
    """How long a call may take upstream before it is deadline_exceeded; waits take this much longer than they wait."""
    consult_timeout: float = 120.0
    """The same for consulting, where a model is waited for."""
    root_certificates: bytes | None = None
    """PEM certificates to trust upstream. None: upstream is called in plain text."""
    registry: CollectorRegistry | None = None
    """Where the metrics go that /metrics shows. None: a registry of the gateway's own."""
