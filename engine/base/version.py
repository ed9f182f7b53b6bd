"""The version of endstop, as records and `endstop --version` show it; pyproject.toml reads it from here."""

__version__ = "0.2.0"
