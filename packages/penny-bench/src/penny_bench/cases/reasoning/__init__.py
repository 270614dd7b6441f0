"""Eight reasoning cases with nine requests, and a rubric of 25 items of 4 points each: 100 in all."""

from penny_bench.cases.reasoning.chances import BOUNDS, CORRECTION, WARMUPS
from penny_bench.cases.reasoning.decisions import RELEASE, TRANSFERS
from penny_bench.cases.reasoning.judge import last_object, right, rubric_checks
from penny_bench.cases.reasoning.model import POINTS, Item, Key, Question, ReasoningCase
from penny_bench.cases.reasoning.networks import EVENT_ORDER, PATH_MTU
from penny_bench.cases.reasoning.planning import PRODUCTION, SCHEDULE

CASES = (PATH_MTU, EVENT_ORDER, PRODUCTION, SCHEDULE, TRANSFERS, RELEASE, BOUNDS, CORRECTION)

__all__ = [
    "CASES",
    "POINTS",
    "WARMUPS",
    "Item",
    "Key",
    "Question",
    "ReasoningCase",
    "last_object",
    "right",
    "rubric_checks",
]
