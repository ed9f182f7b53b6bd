"""The public names of each room, exactly: a name comes or goes here by decision, never by accident."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "endstop.decision": """
