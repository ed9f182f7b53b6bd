"""The decision inside other frameworks' agents: one module each, named after the framework, on top of `follow`.

A module imports its framework, so nothing is imported here. Without its framework a module can be imported, and making
an adapter of it raises WrongUse, which says what to install.
"""
