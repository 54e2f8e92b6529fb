"""Consulting a model: what it is told, and the call to its provider."""
