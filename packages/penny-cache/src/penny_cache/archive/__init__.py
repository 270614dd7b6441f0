"""Bundles in one file, to take elsewhere: the manifest of their namespace, and images that each prove themselves.

| Module | Has |
|---|---|
| `format` | head and tail of the file |
| `write` | bundles of a store into an archive |
| `read` | whole bundles out of one, whatever is broken in it |
| `bring` | an archive into a store |
"""

from penny_cache.archive.bring import Brought, bring
from penny_cache.archive.format import ArchiveError, Head
from penny_cache.archive.read import Archive, Whole
from penny_cache.archive.write import Written, write

__all__ = ["Archive", "ArchiveError", "Brought", "Head", "Whole", "Written", "bring", "write"]
