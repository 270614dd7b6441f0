"""What makes two stores of state the same: a name, fields, and one way to write them down."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from penny_cache.namespace.errors import IdentityError
from penny_cache.namespace.path import join

Value = None | bool | int | str | list["Value"] | dict[str, "Value"]
"""What a field may hold. Floats are left out: write `"0.85"`, which has one spelling."""

MAX_DEPTH = 16
MAX_BYTES = 1 << 20
_INT64 = range(-(2**63), 2**63)


def canonical_json(value: object) -> bytes:
    """The one spelling of a value: UTF-8, keys sorted by code point, no white space, no needless escapes.

    Args:
        value: None, bool, int of 64 bits with sign, str, list or tuple of these, mapping from str to these.

    Raises:
        IdentityError: any other type (floats: use a string), a key that is not text or is empty, an integer
            out of range, text that is not valid Unicode, more than 16 levels, more than 1 MiB.
    """
    text = json.dumps(_plain(value, (), 0), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    data = text.encode()
    if len(data) > MAX_BYTES:
        raise IdentityError(
            f"The identity takes {len(data)} bytes of JSON, at most {MAX_BYTES} are allowed; put the digest "
            f"of a large part in its place."
        )
    return data


@dataclass(frozen=True)
class Identity:
    """A name, and the fields that change the bytes of stored state or their meaning.

    Build it with `Identity.of`. The name is part of the identity: two names never share a namespace.
    """

    canonical: bytes
    """Canonical JSON of `{"fields": ..., "name": ...}`, the only thing kept: nothing can change later."""

    @classmethod
    def of(cls, name: str, fields: Mapping[str, object]) -> Identity:
        """Identity with this name (a served model or profile, say) and these fields.

        Raises:
            IdentityError: as `canonical_json`; or a name that is empty or not a str.
        """
        if not isinstance(name, str) or not name:
            raise IdentityError(f"The name of an identity is {name!r}; give it a text that is not empty.")
        if not isinstance(fields, Mapping):
            raise IdentityError(f"The fields of an identity are {type(fields).__name__}; give a mapping.")
        return cls(canonical_json({"fields": _plain(fields, (), 0), "name": name}))

    @classmethod
    def parse(cls, canonical: bytes) -> Identity:
        """The identity that these bytes spell.

        Raises:
            IdentityError: the bytes are not the canonical JSON of an identity.
        """
        try:
            value = json.loads(canonical)
            identity = cls.of(value["name"], value["fields"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise IdentityError(f"These bytes do not spell an identity: {error}.") from error
        if identity.canonical != canonical:
            raise IdentityError("These bytes spell an identity, but not in canonical JSON.")
        return identity

    @property
    def name(self) -> str:
        return cast(str, json.loads(self.canonical)["name"])

    @property
    def fields(self) -> dict[str, Value]:
        """A fresh copy of the fields."""
        return cast("dict[str, Value]", json.loads(self.canonical)["fields"])

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON, 64 hexadecimal digits."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def directory_name(self) -> str:
        """A readable form of the name and 12 digits of the digest; always one plain path component."""
        readable = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40].rstrip("-")
        return f"{readable or 'namespace'}-{self.digest[:12]}"


def _plain(value: object, path: tuple[str | int, ...], depth: int) -> Value:
    where = f"Field {join(path)}" if path else "The value"
    if depth > MAX_DEPTH:
        raise IdentityError(f"{where} is nested more than {MAX_DEPTH} levels deep; flatten it.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value not in _INT64:
            raise IdentityError(f"{where} is an integer beyond 64 bits; write it as a string.")
        return int(value)
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, i), depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        plain: dict[str, Value] = {}
        for key, item in value.items():
            if not isinstance(key, str) or not key:
                raise IdentityError(f"{where} has the key {key!r}; keys must be text that is not empty.")
            plain[_text(key, f"A key of {join(path) or 'the value'}")] = _plain(item, (*path, key), depth + 1)
        return plain
    if isinstance(value, float):
        raise IdentityError(
            f'{where} is the float {value!r}; write it as a string, for example "{value!r}", since a float '
            f"has more than one spelling."
        )
    raise IdentityError(
        f"{where} is of type {type(value).__name__}; an identity holds only text, integers, true, false, "
        f"null, lists and mappings."
    )


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise IdentityError(f"{where} holds the text {value!r}, which is not valid Unicode.") from None
    return str.__str__(value)  # a member of a str Enum would give its own name
