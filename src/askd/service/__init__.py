"""The use cases: authorize, hand to the writer, read, watch. Domain objects in, domain objects out."""
