"""Puts endstop into the configuration of coding agents, and takes it out again: `endstop setup`.

`agents.toml` says for each agent which file gets which entries; `agents.py` reads it. A module for each syntax (JSON,
TOML, YAML) changes a text at positions, so that every byte that is not endstop's stays what it was;
`document_edits.py` says which changes. `precious_file.py` reads, copies, replaces and restores the files of a person,
and `masked_diff.py` shows the changes without the values of other settings.
"""
