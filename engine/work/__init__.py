"""The state of the work in a folder: its fingerprint, the files that must not change, and copies of it."""
