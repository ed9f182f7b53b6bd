"""What every package may import: the version, ids, words for numbers, and texts that are safe to show."""
