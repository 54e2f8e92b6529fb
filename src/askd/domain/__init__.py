"""What a question, an answer and an ask are: pure rules, without I/O, clock or protobuf."""
