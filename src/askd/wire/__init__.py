"""Questions and answers between protobuf, the domain's forms and JSON: what server, client and gateway share."""
