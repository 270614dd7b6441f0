"""Whether the draft still does what it was calibrated to do.

A draft that is wrong for its target stays lossless: the text is right and only slower, so nothing else tells. `Guard`
compares accepted counts with the `Expectation` of a checkpoint or token map, and alarms when they are too low or stuck.
`simulate` runs many servers at once, to check the promised false alarms.
"""

from penny_spec.guard.expectation import Expectation
from penny_spec.guard.watch import Alarm, Guard, Watched

__all__ = ["Alarm", "Expectation", "Guard", "Watched"]
