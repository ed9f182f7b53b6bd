"""For all tests: Ctrl-C means Ctrl-C.

A shell that starts something in the background has it ignore SIGINT, and every process below inherits that; the tests
that interrupt `endstop` would then wait for nothing.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
