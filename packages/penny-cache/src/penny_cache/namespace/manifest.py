"""The manifest: three lines, so that a person can read it and any damage shows.

penny-cache namespace 1
{"fields":{...},"name":"..."}
sha256 <64 hexadecimal digits over the first two lines>
"""

import hashlib
from pathlib import Path

from penny_cache.namespace.errors import IdentityError, ManifestDamaged
from penny_cache.namespace.identity import MAX_BYTES, Identity

FILE_NAME = "namespace.manifest"
MAX_MANIFEST_BYTES = MAX_BYTES + 4096
_FORMAT = b"penny-cache namespace "
_VERSION = b"1"


def encode(identity: Identity) -> bytes:
    """The manifest of an identity."""
    head = _FORMAT + _VERSION + b"\n" + identity.canonical + b"\n"
    return head + _checksum(head)


def decode(data: bytes, path: Path) -> Identity:
    """The identity in a manifest; `path` is only for the message.

    Raises:
        ManifestDamaged: not a byte-exact manifest of this version.
    """
    lines = data.split(b"\n")
    if not lines[0].startswith(_FORMAT):
        raise ManifestDamaged(
            f"{path} is not a namespace manifest; its directory was not made by penny-cache."
        )
    version = lines[0].removeprefix(_FORMAT)
    if version != _VERSION and version.isdigit():
        raise ManifestDamaged(
            f"{path} has format version {version.decode()}, this penny-cache reads version "
            f"{_VERSION.decode()}; use the penny-cache that made it."
        )
    head, body = b"\n".join(lines[:2]) + b"\n", b"\n".join(lines[2:])
    if version != _VERSION or len(lines) != 4 or body != _checksum(head):
        raise ManifestDamaged(
            f"{path} is torn or was changed: its checksum does not fit {len(data)} bytes. State beside it "
            f"cannot be trusted; remove the namespace directory."
        )
    try:
        return Identity.parse(lines[1])
    except IdentityError as error:
        raise ManifestDamaged(f"{path} has the right checksum and a wrong identity: {error}") from error


def _checksum(head: bytes) -> bytes:
    return b"sha256 " + hashlib.sha256(head).hexdigest().encode() + b"\n"
