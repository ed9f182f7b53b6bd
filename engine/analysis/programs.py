"""Names of the programs whose loops made the runs of records, as people know them."""

from __future__ import annotations

from ..decision.run_origin import FOLLOW_PREFIX, IMPORT_PREFIX

OWN_PROGRAM = "endstop"
"""The program of a run whose loop is this engine."""
UNKNOWN_PROGRAM = "unknown"
"""The program of a run that does not say which loop made it."""
PROGRAMS: dict[str, str] = {
    "claude-code": "Claude Code",
    "cline": "Cline",
    "cline-cli": "Cline",
    "codex": "Codex",
    "continue-cli": "Continue",
    "copilot-cli": "Copilot CLI",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
    "gptme": "gptme",
    "inspect": "Inspect",
    "kimi-cli": "Kimi CLI",
    "langchain": "LangChain",
    "mini-swe-agent": "mini-SWE-agent",
    "openai-agents": "OpenAI Agents SDK",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "openhands-sdk": "OpenHands",
    "pi": "pi",
    "pydantic-ai": "Pydantic AI",
    "qwen-code": "Qwen Code",
    "swe-agent": "SWE-agent",
    "tau-bench": "tau-bench",
    "tau2-bench": "tau2-bench",
    "trae": "TRAE",
}
"""Format of an import (`formats/session_files.py`) -> the program that writes it."""
COMMON_FORMATS = frozenset({"anthropic", "atif", "openai", "otlp", "sharegpt"})
"""Formats that many programs write."""


def program_name(engine: str) -> str:
    """Return the name of the program whose loop made a run. engine: `RunStarted.engine`."""
    if engine.startswith(IMPORT_PREFIX):
        format = engine.removeprefix(IMPORT_PREFIX)
        return UNKNOWN_PROGRAM if format in COMMON_FORMATS else PROGRAMS.get(format, format)
    if engine.startswith(FOLLOW_PREFIX):
        return engine.removeprefix(FOLLOW_PREFIX).rpartition(" ")[0]
    return OWN_PROGRAM
