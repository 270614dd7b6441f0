"""Reports: tables for the terminal, a live display, pages in HTML and Markdown, and the JSON document of decode."""

from penny_bench.report.document import SCHEMA, document, write_json
from penny_bench.report.html import html
from penny_bench.report.live import Live
from penny_bench.report.markdown import markdown
from penny_bench.report.metrics import Metric, metrics_of
from penny_bench.report.read import Document, parse_document, read_document
from penny_bench.report.rows import Row, rows
from penny_bench.report.run_table import print_run
from penny_bench.report.sections import report_of, reports_of
from penny_bench.report.table import print_result

__all__ = [
    "SCHEMA",
    "Document",
    "Live",
    "Metric",
    "Row",
    "document",
    "html",
    "markdown",
    "metrics_of",
    "parse_document",
    "print_result",
    "print_run",
    "read_document",
    "report_of",
    "reports_of",
    "rows",
    "write_json",
]
