"""Loads: seeded schedules of requests, sent to a server, with the client's own cost measured beside it."""

from penny_bench.load.arrivals import Constant, Gamma, Poisson, Ramp
from penny_bench.load.base import Closed, OpenLoad, Slot
from penny_bench.load.cache import CacheUse, cache_use
from penny_bench.load.check import Check
from penny_bench.load.drive import drive_closed, drive_open, due
from penny_bench.load.metrics import Latencies, latencies
from penny_bench.load.observer import Observer, Silent
from penny_bench.load.own_cost import OwnCost
from penny_bench.load.parse import FORMS, Load, parse_load
from penny_bench.load.run import EarlierPart, RunPlan, RunRequest, RunResult, measure_run
from penny_bench.load.slo import Slo
from penny_bench.load.summary import Distribution, Summary, peak_rate, summarise_run
from penny_bench.load.trace import Trace

__all__ = [
    "FORMS",
    "CacheUse",
    "Check",
    "Closed",
    "Constant",
    "Distribution",
    "EarlierPart",
    "Gamma",
    "Latencies",
    "Load",
    "Observer",
    "OpenLoad",
    "OwnCost",
    "Poisson",
    "Ramp",
    "RunPlan",
    "RunRequest",
    "RunResult",
    "Silent",
    "Slo",
    "Slot",
    "Summary",
    "Trace",
    "cache_use",
    "drive_closed",
    "drive_open",
    "due",
    "latencies",
    "measure_run",
    "parse_load",
    "peak_rate",
    "summarise_run",
]
