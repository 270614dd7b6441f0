"""Which fields of two identities differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from penny_cache.namespace.identity import Identity, Value
from penny_cache.namespace.path import join


@dataclass(frozen=True)
class Difference:
    """One field that differs.

    Attributes:
        path: dotted path within the fields, or `identity name`, which no field can have for its path.
        left: canonical JSON of the left value, None where the left identity lacks the field.
        right: the same of the right one.
    """

    path: str
    left: str | None
    right: str | None

    def sentence(self, left: str, right: str) -> str:
        """`page_size is 32 (found) and 64 (expected)`, for the two words given."""
        return f"{self.path} is {_shown(self.left)} ({left}) and {_shown(self.right)} ({right})"


def diff(left: Identity, right: Identity) -> tuple[Difference, ...]:
    """The fields that differ, sorted by path; empty exactly when the identities are equal."""
    found = list(_compare(left.fields, right.fields, ()))
    if left.name != right.name:
        found.append(Difference("identity name", _json(left.name), _json(right.name)))
    return tuple(sorted(found, key=lambda d: d.path))


def _compare(left: Value, right: Value, path: tuple[str | int, ...]) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            if key not in right:
                yield Difference(join((*path, key)), _json(left[key]), None)
            elif key not in left:
                yield Difference(join((*path, key)), None, _json(right[key]))
            else:
                yield from _compare(left[key], right[key], (*path, key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from _compare(a, b, (*path, i))
    elif _json(left) != _json(right):  # as text, since 1 == True in Python
        yield Difference(join(path), _json(left), _json(right))


def _json(value: Value) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(value: str | None) -> str:
    return "absent" if value is None else value
