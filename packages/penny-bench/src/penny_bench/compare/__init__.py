"""Comparison of two settings of a server, with its restarts as the unit, and the plan of one."""

from penny_bench.compare.comparison import Comparison, ComparisonRow, Settings, compare_restarts
from penny_bench.compare.planning import ComparisonPlan, plan_comparison, plan_document, plan_text
from penny_bench.compare.report import SCHEMA, comparison_document, markdown, print_comparison
from penny_bench.compare.restart import METRICS, Metric, Restart, RestartRow, read_restart, read_side
from penny_bench.compare.verdict import EXIT, Verdict, overall, verdict

__all__ = [
    "EXIT",
    "METRICS",
    "SCHEMA",
    "Comparison",
    "ComparisonPlan",
    "ComparisonRow",
    "Metric",
    "Restart",
    "RestartRow",
    "Settings",
    "Verdict",
    "compare_restarts",
    "comparison_document",
    "markdown",
    "overall",
    "plan_comparison",
    "plan_document",
    "plan_text",
    "print_comparison",
    "read_restart",
    "read_side",
    "verdict",
]
