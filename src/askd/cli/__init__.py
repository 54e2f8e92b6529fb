"""The command line: one module a command group. Everything but `serve` is a client of a running server."""
