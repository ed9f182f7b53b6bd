"""Adapters that bring the decision into other frameworks' agents: one module for each framework, built on `follow`.

A module imports its framework, so nothing is imported here. A module can be imported without its framework; creating
its adapter then raises WrongUse, which says what to install.
"""
