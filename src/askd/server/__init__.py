"""The gRPC face: servicers that convert, call and convert; one error table; start and drain."""
