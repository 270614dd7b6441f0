"""Hypothesis without a clock: a busy machine makes no test fail. And the build of NIXL that does files and objects."""

import os

from hypothesis import settings

# A process can import one build, and the tests of the engine and of the shared tier meet in one.
os.environ.setdefault("PENNY_CACHE_NIXL", "nixl_cu12")

settings.register_profile("penny-cache", deadline=None)
settings.load_profile("penny-cache")
