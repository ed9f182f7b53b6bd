"""How the process starts, ends and hears signals: its standard streams, its shutdown, its event loop."""
