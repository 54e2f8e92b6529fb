"""What the figures should be, by the name of the measure. What is not here is reported only."""

from bench.series import Bound, at_least, at_most

SCALE = at_most(1.2, 1.05)
OTHERS = at_most(2)

BOUNDS: dict[str, Bound] = {
    "ask64": at_least(0.65, 0.80),
    "ask64_h2load": at_least(0.65, 0.80),
    "get64": at_least(0.60, 0.85),
    "get64_h2load": at_least(0.60, 0.85),
    "page64": at_least(0.60, 0.85),
    "page64_session": at_least(0.60, 0.85),
    "cycle16": at_least(0.27, 0.40),
    "cycle1": at_most(1.3, 1.1),
    "fanout": at_least(3, 10),
    "fanout_last": at_most(1.1, 1.0),
    "watchers_memory": at_most(50, absolute=True),
    "idle_memory_each": at_most(45, 25, absolute=True),
    "idle_ask": at_most(1.3),
    "scale_ask": SCALE,
    "scale_get": SCALE,
    "scale_wait": SCALE,
    "scale_page": SCALE,
    "scale_page_pending": SCALE,
    "scale_page_session": SCALE,
    "scale_watch_session": SCALE,
    "scale_watch_after": SCALE,
    "scale_answer": SCALE,
    "scale_reject": SCALE,
    "scale_cancel": SCALE,
    "scale_end_turn": SCALE,
    "join_first": at_most(100, absolute=True),
    "join_ask": OTHERS,
    "join_get": OTHERS,
    "join_page": OTHERS,
    "join_worst": OTHERS,
    "end_session": OTHERS,
    "expire": OTHERS,
    "http_get16": at_least(0.75, 0.85),
    "answer_p99": at_most(5, 3),
    "scale_start": at_most(2, 1, absolute=True),
    "across": at_most(20, absolute=True),
}
