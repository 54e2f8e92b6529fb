"""The versions of the schema, a file each."""
