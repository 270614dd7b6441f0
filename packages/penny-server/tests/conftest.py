"""Starts every test with Ctrl-C as a terminal has it."""

import signal

# A shell starts what runs in its background with SIGINT ignored, and the commands under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
