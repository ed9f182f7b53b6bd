"""The command line: a module for each command, and what it shows in `views/`."""
