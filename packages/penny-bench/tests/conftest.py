"""Lets test files import what they share."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# A shell starts what runs in its background with SIGINT ignored, and the commands under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
