"""`endstop hook`: a program that coding agents start at their own events, and that answers with what they accept."""
