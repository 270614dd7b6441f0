"""Reports of a measurement: a table for the terminal, a JSON document for everything else."""

from penny_bench.report.document import SCHEMA, document, write_json
from penny_bench.report.rows import Row, rows
from penny_bench.report.run_table import print_run
from penny_bench.report.table import print_result

__all__ = ["SCHEMA", "Row", "document", "print_result", "print_run", "rows", "write_json"]
