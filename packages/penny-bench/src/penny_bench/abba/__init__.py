"""A comparison run from start to end: servers in ABBA order, measurements on each, verdict."""

from penny_bench.abba.campaign import run_plan
from penny_bench.abba.command import abba
from penny_bench.abba.interrupts import Interrupts
from penny_bench.abba.plan import AbbaPlan, MeasurePlan, ServerPlan, read_plan
from penny_bench.abba.record import Record, Step, steps

__all__ = [
    "AbbaPlan",
    "Interrupts",
    "MeasurePlan",
    "Record",
    "ServerPlan",
    "Step",
    "abba",
    "read_plan",
    "run_plan",
    "steps",
]
