"""Showing a run to people while it goes on: live in a terminal, in plain lines elsewhere."""
