"""Questions about the functions and types that Python has in C, answered from their docstrings."""

import importlib
import inspect
import random
import re
from collections.abc import Iterator

from penny_models.training.chat.base import Dialogue
from penny_models.training.chat.documentation import question_and_answer

_MODULES = (
    "builtins",
    "binascii",
    "errno",
    "gc",
    "itertools",
    "math",
    "cmath",
    "select",
    "sys",
    "time",
    "zlib",
    "_collections",
    "_functools",
    "_operator",
    "_random",
    "_socket",
    "_struct",
    "_thread",
    "posix",
)
_SHOWN = {"builtins": "", "posix": "os."}
_SIGNATURE = re.compile(r"^[\w.]+\(.*?\)(\s*->.*?)?\s*(--|\n|$)\s*", re.DOTALL)


def _answer(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return re.sub(r"\s+", " ", _SIGNATURE.sub("", text, count=1).strip().split("\n\n")[0]).strip()


def _objects() -> Iterator[tuple[str, object]]:
    for module_name in _MODULES:
        module = importlib.import_module(module_name)
        prefix = _SHOWN.get(module_name, module_name.removeprefix("_") + ".")
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not callable(value):
                continue
            yield prefix + name, value
            if isinstance(value, type) and not issubclass(value, BaseException):
                for inner, method in sorted(vars(value).items()):
                    if not inner.startswith("_"):
                        yield f"{prefix}{name}.{inner}", method


def dialogues(rng: random.Random, repeats: int) -> Iterator[Dialogue]:
    """Yield ``repeats`` differently worded conversations about each object with a docstring."""
    for name, value in _objects():
        answer = _answer(value)
        if not 15 <= len(answer) <= 400:
            continue
        kind = "class" if isinstance(value, type) else "function"
        for _ in range(repeats):
            yield Dialogue(f"builtin/{name}", tuple(question_and_answer(name, kind, answer, rng)))
