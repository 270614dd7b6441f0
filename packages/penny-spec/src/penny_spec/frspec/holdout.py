"""Which documents are kept back to measure coverage."""

import hashlib


def is_held_out(document: bytes, share: float) -> bool:
    """True for about `share` (0 to 1) of all documents, always for the same ones.

    The first 8 bytes of the document's SHA-256, as a big-endian fraction of 2**64, decide; so equal documents are
    always on the same side, in whatever file and order they come.
    """
    return int.from_bytes(hashlib.sha256(document).digest()[:8], "big") < share * 2**64
