"""What /metrics shows of the gateway, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters by route: labels are path patterns, never what callers send."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        self._requests = Counter(
            "askd_http_requests", "Responses by path, method and status; status 0: the client left before it.",
            ("path", "method", "status"), registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "askd_http_request_seconds", "Seconds from a request to its response's end, waits and streams aside.",
            ("path",), buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self.streams = Gauge("askd_http_open_streams", "Event streams that are open.", registry=self._registry)
        self._known: dict[tuple[str, str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}

    def count(self, path: str, method: str, status: int, seconds: float | None) -> None:
        """One request is done; its seconds are None where it was meant to last."""
        # Looking a child up by its labels takes a lock and costs more than counting.
        key = (path, method, status)
        child = self._known.get(key)
        if child is None:
            child = self._known[key] = self._requests.labels(path, method, str(status))
        child.inc()
        if seconds is not None:
            self._timer(path).observe(seconds)

    def _timer(self, path: str) -> Histogram:
        timer = self._timed.get(path)
        if timer is None:
            timer = self._timed[path] = self._seconds.labels(path)
        return timer

    def text(self) -> bytes:
        """The metrics in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry)


CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
