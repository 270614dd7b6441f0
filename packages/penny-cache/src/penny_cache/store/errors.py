"""What can go wrong with a store, each as a sentence."""

CLOSED = "The store {} is closed."


class StoreError(Exception):
    """The store or the file system refused. No bundle is changed by it; to make room some may have been given up."""


class StoreVersion(StoreError):  # noqa: N818
    """The store was written by another version of its format."""


class StoreLocked(StoreError):  # noqa: N818
    """Another process writes to this store."""


class BundleRefused(StoreError):  # noqa: N818
    """A bundle that cannot be stored: a bad key, name or size, or more than the budget holds."""


class StoreBusy(StoreError):  # noqa: N818
    """The write queue has no room now."""
