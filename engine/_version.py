"""The installed version of endstop, as records and `endstop --version` show it."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("endstop")
except PackageNotFoundError:  # imported from a checkout that was never installed
    __version__ = "unknown"
