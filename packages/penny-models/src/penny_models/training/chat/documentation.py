"""Questions about functions and classes, answered from their docstrings and sources."""

import ast
import random
import re
import textwrap
import warnings
from collections.abc import Iterator

from penny_models.training.chat.base import Dialogue, Message, assistant, user
from penny_models.training.sources import Document

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_WHAT = (
    "What does {} do?",
    "What is {}?",
    "Explain {}.",
    "What is {} for?",
    "Tell me about {}.",
    "what does {} do",
    "Please describe {} in short.",
    "In Python, what does {} do?",
)
_SHOW = ("Show me the source of {}.", "Write the function {}.", "How is {} written?", "Show {}.")
_MAX_SOURCE_LINES = 14
_KNOWN_AS = {"posixpath": "os.path", "_pydecimal": "decimal", "_pydatetime": "datetime", "_pyio": "io"}


def _module(path: str) -> str:
    parts = [part for part in path.removesuffix(".py").split("/") if part != "__init__"]
    name = ".".join(parts)
    return _KNOWN_AS.get(name, name)


def _first_paragraph(docstring: str) -> str:
    return re.sub(r"\s+", " ", docstring.strip().split("\n\n")[0]).strip()


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.")


def question_and_answer(name: str, kind: str, answer: str, rng: random.Random) -> list[Message]:
    """Return a question about ``name`` and its answer, with or without a thought."""
    thought = rng.choice(
        (
            "",
            "",
            f"The user asks about the {kind} {name}. I recall its documentation.",
            f"This is about {name}, a {kind}. I answer in short.",
        )
    )
    shown = f"the module {name}" if kind == "module" else rng.choice((f"`{name}`", name))
    return [user(rng.choice(_WHAT).format(shown)), assistant(answer, thought)]


def dialogues(item: Document, rng: random.Random) -> Iterator[Dialogue]:
    """Yield conversations about the public definitions of one Python file; none when it does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(item.text)
        except (SyntaxError, ValueError, RecursionError):
            return
    module = _module(item.path)
    overview = ast.get_docstring(tree)
    if overview and 20 <= len(answer := _first_paragraph(overview)) <= 400:
        yield Dialogue(item.sha256, tuple(question_and_answer(module, "module", answer, rng)))
    for name, node in _definitions(tree.body, f"{module}."):
        answer = _first_paragraph(ast.get_docstring(node) or "")
        if not 20 <= len(answer) <= 400 or answer.startswith((">>>", ":", "@", ".. ")):
            continue
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        messages = question_and_answer(name, kind, answer, rng)
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if kind == "function" and lines <= _MAX_SOURCE_LINES and rng.random() < 0.2:
            source = textwrap.dedent("\n".join(item.text.splitlines()[node.lineno - 1 : node.end_lineno]))
            messages.append(user(rng.choice(_SHOW).format(name)))
            messages.append(assistant(f"```python\n{source}\n```"))
        yield Dialogue(item.sha256, tuple(messages))
