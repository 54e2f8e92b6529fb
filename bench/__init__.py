"""Measures askd against the bare gRPC calls, commits and stream messages that it is made of."""
