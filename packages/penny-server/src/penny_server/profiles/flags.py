"""The arguments that the installed SGLang accepts, read from its source so that SGLang is not imported.

SGLang declares each argument as an annotated field ``name: A[type, Arg(...)]`` of the classes in
``sglang/srt/arg_groups/fields``. Reading them takes milliseconds; importing them takes seconds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from penny_server.errors import ExitCode, PennyError

Kind = Literal["switch", "toggle", "value", "list"]

FIELDS_FOLDER = Path("srt", "arg_groups", "fields")


@dataclass(frozen=True)
class Flag:
    """One argument of SGLang.

    A ``switch`` can only be given (``--flag``), a ``toggle`` also has ``--no-flag``, a ``list`` takes one or
    more values. ``scalar`` is the declared type of one value, or None where SGLang parses the text itself.
    ``choices`` is empty unless the declaration itself lists them.
    """

    name: str
    option: str
    kind: Kind
    scalar: Literal["int", "float", "str"] | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _strings(node: ast.expr | None) -> tuple[str, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        return ()
    values = [_constant(element) for element in node.elts]
    return tuple(str(v) for v in values) if all(v is not None for v in values) else ()


def _without_optional(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Optional":
        return node.slice
    return node


def _flag(name: str, declared: ast.expr, meta: dict[str, ast.expr]) -> Flag:
    option = _constant(meta.get("cli_name")) or "--" + name.replace("_", "-")
    aliases = tuple(alias.lstrip("-").replace("-", "_") for alias in _strings(meta.get("aliases")))
    inner = _without_optional(declared)
    head = inner.value if isinstance(inner, ast.Subscript) else inner
    kind: Kind = "value"
    if "action" in meta or _constant(meta.get("nargs")) in ("+", "*"):
        kind = "toggle" if "BooleanOptionalAction" in ast.unparse(meta.get("action", inner)) else "list"
    elif "type_parser" not in meta and ast.unparse(head) in ("List", "list"):
        kind = "list"
        inner = inner.slice if isinstance(inner, ast.Subscript) else inner
    elif ast.unparse(head) == "bool":
        kind = "switch"
    choices = _strings(meta.get("choices"))
    if ast.unparse(head) == "Literal" and isinstance(inner, ast.Subscript):
        choices = choices or _strings(inner.slice)
    text = ast.unparse(inner)
    scalar: Literal["int", "float", "str"] | None = None
    if "type_parser" not in meta and text in ("int", "float", "str"):
        scalar = text  # type: ignore[assignment]
    return Flag(name, str(option), kind, scalar, choices, aliases)


def _flags_of(source: str) -> Iterator[Flag]:
    for cls in ast.parse(source).body:
        for field in cls.body if isinstance(cls, ast.ClassDef) else ():
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            declared = field.annotation
            meta: dict[str, ast.expr] = {}
            if isinstance(declared, ast.Subscript) and ast.unparse(declared.value) == "A":
                parts = declared.slice.elts if isinstance(declared.slice, ast.Tuple) else [declared.slice]
                declared = parts[0]
                calls = [p for p in parts[1:] if isinstance(p, ast.Call) and ast.unparse(p.func) == "Arg"]
                meta = {k.arg: k.value for call in calls for k in call.keywords if k.arg}
            elif "Callable" in ast.unparse(declared) or "type]" in ast.unparse(declared):
                continue
            if _constant(meta.get("no_cli")) is not True:
                yield _flag(field.target.id, declared, meta)


def _added_by_hand(source: str) -> Iterator[Flag]:
    """The arguments whose choices SGLang works out at run time: ``add_argument`` calls beside the declarations."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(".add_argument"):
            continue
        option = _constant(node.args[0]) if node.args else None
        # Those with an action of their own are old spellings of declared arguments.
        old = any(keyword.arg == "action" for keyword in node.keywords)
        if isinstance(option, str) and option.startswith("--") and option != "--config" and not old:
            yield Flag(option[2:].replace("-", "_"), option, "value", "str")


@cache
def catalogue() -> dict[str, Flag]:
    """Every argument of the installed SGLang by name (underscores). Raises PennyError without SGLang."""
    spec = find_spec("sglang")
    places = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for place in places for file in (Path(place) / FIELDS_FOLDER).glob("*.py"))
    by_hand = [file for place in places if (file := Path(place) / "srt" / "server_args.py").is_file()]
    flags = {flag.name: flag for file in by_hand for flag in _added_by_hand(file.read_text(encoding="utf-8"))}
    flags |= {flag.name: flag for file in files for flag in _flags_of(file.read_text(encoding="utf-8"))}
    if not flags:
        raise PennyError(
            f"The arguments of SGLang could not be read: it has no declarations in sglang/{FIELDS_FOLDER}.",
            ExitCode.ENVIRONMENT,
            "Install the pinned version with: pip install --force-reinstall penny-server",
        )
    return flags


def canonical(key: str) -> str:
    """The field name of a key as people type it, with dashes, a leading ``--`` or an alias of SGLang's."""
    name = key.lstrip("-").replace("-", "_")
    if name in catalogue():
        return name
    by_alias = {alias: flag.name for flag in catalogue().values() for alias in flag.aliases}
    by_option = {flag.option.lstrip("-").replace("-", "_"): flag.name for flag in catalogue().values()}
    return by_alias.get(name) or by_option.get(name) or name
