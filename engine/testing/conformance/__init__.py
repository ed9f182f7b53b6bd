"""Conformance kits for your own implementations: `providers` for a model provider, `durable` for a durable engine."""
