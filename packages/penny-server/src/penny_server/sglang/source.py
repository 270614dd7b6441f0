"""Finds and digests the source of a dotted SGLang name without importing SGLang."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path


class SourceNotFoundError(LookupError):
    """The installed SGLang has no such module or name."""


def module_file(module: str) -> Path:
    """The file of a dotted module name, found from its top package's location; nothing is imported."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise SourceNotFoundError(f"{top} is not installed")
    for root in spec.submodule_search_locations:
        base = Path(root).joinpath(*rest)
        for candidate in (base / "__init__.py", base.with_suffix(".py")):
            if candidate.is_file():
                return candidate
    raise SourceNotFoundError(f"the installed {top} has no module {module}")


@lru_cache(maxsize=64)
def _parsed(file: Path) -> tuple[list[str], ast.Module]:
    text = file.read_text(encoding="utf-8")
    return text.splitlines(keepends=True), ast.parse(text)


def _named(body: list[ast.stmt], name: str) -> ast.stmt | None:
    """The last statement of ``body`` that binds ``name``; branches of if/try/with are looked into."""
    found: ast.stmt | None = None
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                found = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                found = node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [s for f in ("body", "orelse", "finalbody") for s in getattr(node, f, [])]
            found = _named(inner, name) or found
    return found


def split_target(target: str) -> tuple[str, list[str]]:
    """Splits ``pkg.mod.Class.method`` into its module and the names inside that module."""
    parts = target.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            module_file(".".join(parts[:cut]))
        except SourceNotFoundError:
            continue
        return ".".join(parts[:cut]), parts[cut:]
    raise SourceNotFoundError(f"no module of {target} exists in the installed SGLang")


def source_of(target: str) -> str:
    """Source text of a function, method, class or module-level assignment, decorators included.

    Raises SourceNotFoundError when the installed SGLang does not define ``target``.
    """
    module, names = split_target(target)
    lines, tree = _parsed(module_file(module))
    body: list[ast.stmt] = tree.body
    node: ast.stmt | None = None
    for name in names:
        node = _named(body, name)
        if node is None:
            raise SourceNotFoundError(f"{module} defines no {'.'.join(names)}")
        body = getattr(node, "body", [])
    assert node is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "".join(lines[first - 1 : node.end_lineno])


def digest_of(target: str) -> str:
    """First 16 hex digits of the SHA-256 of ``source_of(target)``."""
    return hashlib.sha256(source_of(target).encode()).hexdigest()[:16]
