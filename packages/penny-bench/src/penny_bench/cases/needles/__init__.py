"""Opaque records hidden in a long text, and the judge of what comes back."""

from penny_bench.cases.needles.haystack import Record, draw_records, hide, record_line
from penny_bench.cases.needles.judge import Answer, ask_all, ask_some, read_answer

__all__ = [
    "Answer",
    "Record",
    "ask_all",
    "ask_some",
    "draw_records",
    "hide",
    "read_answer",
    "record_line",
]
