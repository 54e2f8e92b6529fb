"""The HTTP face: a gRPC client with routes, which holds no rules and no database (CONTRACT section 7)."""
