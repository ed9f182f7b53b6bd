"""The process of a command: its standard streams, signals, event loop and exit."""
