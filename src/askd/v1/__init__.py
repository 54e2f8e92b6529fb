"""Generated from protos/askd/v1 by `make gen`; only this line is written by hand."""
