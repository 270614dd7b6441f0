"""Sizes of the sources: `python tools/size.py [ROOT]` counts lines that are neither blank, comment nor docstring.

Prints the largest files of the packages, the median file, and each limit with what is used of it. Exits with 1 if a
limit is exceeded or names files that do not exist.

The CPU device has three limits. The first was set when it served the dense family (`qwen3_5`) only, without drafts, and
holds for every operation and every CPU seam but those of Flash-Next (`qwen4_exp`) and of speculation, which came later
and have their own.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN = 10
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


@dataclass(frozen=True)
class Limit:
    """At most `lines` lines of code in all files that match `patterns`, globs from the root, but not in `without`."""

    name: str
    lines: int
    patterns: tuple[str, ...]
    without: tuple[str, ...] = ()


SEAMS = "packages/penny-server/src/penny_server/sglang/seams"
FLASH_NEXT = f"{SEAMS}/cpu_next.py"
SPECULATION = (f"{SEAMS}/cpu_spec.py", f"{SEAMS}/cpu_dflash.py")
LIMITS = (
    Limit(
        "CPU operations and CPU seams",
        1200,
        ("packages/penny-kernels/src/penny_kernels/cpu/**/*.py", f"{SEAMS}/cpu*.py"),
        without=(FLASH_NEXT, *SPECULATION),
    ),
    Limit("CPU seams of Flash-Next", 80, (FLASH_NEXT,)),
    Limit("CPU seams of speculation", 260, SPECULATION),
)


def code_lines(source: str) -> int:
    """Return how many lines of a Python source hold code: not blank, not comment, not part of a docstring.

    A string that stands alone as a statement counts as a docstring, an attribute's too.
    """
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def verdict(limit: Limit, root: Path) -> tuple[bool, str]:
    """Return whether the files under `root` keep to the limit, and the sentence that says so."""
    left_out = {root / name for name in limit.without}
    found = [sorted(set(root.glob(pattern)) - left_out) for pattern in limit.patterns]
    for pattern, files in zip(limit.patterns, found, strict=True):
        if not files:
            return False, f"{limit.name}: no file matches {pattern}; correct LIMITS in tools/size.py."
    used = sum(code_lines(file.read_text()) for files in found for file in files)
    if used > limit.lines:
        return (
            False,
            f"{limit.name}: {used:,} lines of code, {used - limit.lines:,} over the limit of {limit.lines:,}.",
        )
    return True, f"{limit.name}: {used:,} of at most {limit.lines:,} lines of code."


def main(argv: Sequence[str]) -> int:
    """Print sizes and limits of the repository at `argv[0]` (default: this one); return the exit status."""
    root = Path(argv[0]) if argv else Path(__file__).parents[1]
    files = root.glob("packages/*/src/**/*.py")
    sizes = sorted(
        ((code_lines(file.read_text()), str(file.relative_to(root))) for file in files), reverse=True
    )
    for lines, name in sizes[:SHOWN]:
        print(f"{lines:5}  {name}")
    if sizes:
        print(f"{statistics.median(lines for lines, _ in sizes):5g}  median of {len(sizes)} files")
    verdicts = [verdict(limit, root) for limit in LIMITS]
    for _, sentence in verdicts:
        print(sentence)
    return 0 if all(kept for kept, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
