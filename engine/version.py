"""The installed version of endstop, as records and `endstop --version` show it."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("endstop")
except PackageNotFoundError:  # imported from a checkout that was never installed
    VERSION = "unknown"
