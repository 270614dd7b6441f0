"""What must stay as it is for a while: bundles by key, and segments whose blocks are being read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable


class Pins:
    """Counts who holds what. By key, so that a bundle that is stored again is held as well."""

    def __init__(self) -> None:
        self._keys: Counter[bytes] = Counter()
        self._segments: Counter[int] = Counter()

    @property
    def keys(self) -> Collection[bytes]:
        """Keys of bundles that are not to be given up; a copy."""
        return self._keys.copy().keys()

    @property
    def segments(self) -> Collection[int]:
        """Segments whose blocks are not to become holes; a copy."""
        return self._segments.copy().keys()

    def hold(self, keys: Iterable[bytes], segments: Iterable[int] = ()) -> None:
        """Note one more holder of each."""
        self._keys.update(keys)
        self._segments.update(segments)

    def release(self, keys: Iterable[bytes], segments: Iterable[int] = ()) -> None:
        """Note one less."""
        self._keys.subtract(keys)
        self._segments.subtract(segments)
        # Adding keeps positive counts only.
        self._keys += Counter()
        self._segments += Counter()
