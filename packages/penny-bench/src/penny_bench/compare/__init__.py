"""Comparison of two settings of a server, with its restarts as the unit, and the plan of one."""

from penny_bench.compare.comparison import Comparison, compare_restarts
from penny_bench.compare.decode_document import METRICS
from penny_bench.compare.document import Document, Finding, read_document
from penny_bench.compare.planning import ComparisonPlan, plan_comparison, plan_document, plan_text
from penny_bench.compare.report import SCHEMA, comparison_document, markdown, print_comparison
from penny_bench.compare.restart import Restart, read_restart, read_side
from penny_bench.compare.row import ComparisonRow
from penny_bench.compare.settings import Settings
from penny_bench.compare.value import Metric, Place, Value
from penny_bench.compare.verdict import EXIT, Verdict, overall, verdict
from penny_bench.compare.words import notes, sentence

__all__ = [
    "EXIT",
    "METRICS",
    "SCHEMA",
    "Comparison",
    "ComparisonPlan",
    "ComparisonRow",
    "Document",
    "Finding",
    "Metric",
    "Place",
    "Restart",
    "Settings",
    "Value",
    "Verdict",
    "compare_restarts",
    "comparison_document",
    "markdown",
    "notes",
    "overall",
    "plan_comparison",
    "plan_document",
    "plan_text",
    "print_comparison",
    "read_document",
    "read_restart",
    "read_side",
    "sentence",
    "verdict",
]
