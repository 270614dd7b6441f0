"""Files, edits in words, and the same edits as replacements, from which the expected files follow."""

from penny_bench.cases.code_edit.judge import CODE, Edited, read_edited
from penny_bench.cases.code_edit.model import EditCase, edit_cases

__all__ = ["CODE", "EditCase", "Edited", "edit_cases", "read_edited"]
