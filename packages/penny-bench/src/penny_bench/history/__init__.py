"""Many results over time."""

from penny_bench.history.folder import Found, find
from penny_bench.history.page import history_document, history_report
from penny_bench.history.point import Entry, Setting, entry_of
from penny_bench.history.series import Point, Series, history
from penny_bench.history.text import print_history, sparkline

__all__ = [
    "Entry",
    "Found",
    "Point",
    "Series",
    "Setting",
    "entry_of",
    "find",
    "history",
    "history_document",
    "history_report",
    "print_history",
    "sparkline",
]
