"""Namespaces: who may read which stored state.

Stored state means something only to a server of the same identity: checkpoint digests, dtypes, page size,
layouts, versions, whatever changes bytes or their meaning. An `Identity` names all of it; its digest names a
directory; a manifest inside holds the whole identity and is compared field by field before anything is read.
"""

from penny_cache.namespace.checkpoint import Checkpoint, FileDigest, digest_checkpoint
from penny_cache.namespace.collect import Choice, Collected, Policy, choose, collect
from penny_cache.namespace.difference import Difference, diff
from penny_cache.namespace.directory import Namespace, create, ensure, find, open, read
from penny_cache.namespace.errors import (
    CheckpointError,
    IdentityError,
    ManifestDamaged,
    NamespaceError,
    NamespaceExists,
    NamespaceMismatch,
    NamespaceMissing,
)
from penny_cache.namespace.identity import Identity, Value, canonical_json
from penny_cache.namespace.lease import hold
from penny_cache.namespace.manifest import FILE_NAME as MANIFEST_NAME
from penny_cache.namespace.usage import Usage, usage

__all__ = [
    "MANIFEST_NAME",
    "Checkpoint",
    "CheckpointError",
    "Choice",
    "Collected",
    "Difference",
    "FileDigest",
    "Identity",
    "IdentityError",
    "ManifestDamaged",
    "Namespace",
    "NamespaceError",
    "NamespaceExists",
    "NamespaceMismatch",
    "NamespaceMissing",
    "Policy",
    "Usage",
    "Value",
    "canonical_json",
    "choose",
    "collect",
    "create",
    "diff",
    "digest_checkpoint",
    "ensure",
    "find",
    "hold",
    "open",
    "read",
    "usage",
]
