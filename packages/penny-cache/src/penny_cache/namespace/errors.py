"""Everything that can be wrong with a namespace. Each message is a sentence for the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penny_cache.namespace.difference import Difference


class IdentityError(ValueError):
    """A value that an identity cannot hold."""


class CheckpointError(Exception):
    """A checkpoint that cannot be identified."""


class NamespaceError(Exception):
    """Base of the errors about a namespace on disk."""


class NamespaceExists(NamespaceError):  # noqa: N818
    """`create` found the namespace already there."""


class NamespaceMissing(NamespaceError):  # noqa: N818
    """There is no such namespace."""


class ManifestDamaged(NamespaceError):  # noqa: N818
    """The manifest is torn, tampered with, or of another format."""


class NamespaceMismatch(NamespaceError):  # noqa: N818
    """The namespace on disk has another identity than the one asked for.

    Attributes:
        path: the namespace directory.
        differences: the fields that differ; `left` is what was found, `right` what was expected.
    """

    def __init__(self, path: Path, differences: tuple[Difference, ...]) -> None:
        self.path = path
        self.differences = differences
        listed = "; ".join(d.sentence("found", "expected") for d in differences)
        super().__init__(
            f"The namespace in {path} belongs to another identity: {listed}. State stored there cannot be "
            f"used; serve with the settings it was made with, or use another store."
        )
