"""All generated conversations as documents, split like the files they come from."""

import hashlib
import random
from collections.abc import Iterable, Iterator

from penny_models.training.chat import arithmetic, builtin_objects, documentation, smalltalk, tools
from penny_models.training.chat.base import Dialogue, render
from penny_models.training.corpus import Corpus, is_held_out
from penny_models.training.sources import Document, document

SMALLTALK = 6000
ARITHMETIC = 9000
TOOLS = 5000
JSON = 3000
STANDARD_LIBRARY_REPEATS = 3
"""Differently worded conversations for each definition of the standard library."""
BUILTIN_REPEATS = 6


def _documents(kind: str, dialogues: Iterable[Dialogue]) -> Iterator[Document]:
    for dialogue in dialogues:
        yield document("generated", "1", "Apache-2.0", kind, "chat", render(dialogue))


def _about(files: Iterable[Document], limit_bytes: int, rng: random.Random) -> Iterator[Document]:
    spent = 0
    for item in files:
        if item.kind != "code":
            continue
        for _ in range(STANDARD_LIBRARY_REPEATS if item.source == "python" else 1):
            for made in _documents("documentation", documentation.dialogues(item, rng)):
                spent += len(made.text)
                yield made
        if spent > limit_bytes:
            return


def build_chat(corpus: Corpus, seed: int, limit_bytes: int, name: str) -> Corpus:
    """Generate the conversations of the model ``name``.

    Those about training files are for training, those about held-out files for the held-out text.
    Conversations without a file are split by the hash of their key, and a held-out text is never trained on.
    ``limit_bytes`` bounds the conversations about files.
    """
    rng = random.Random(seed)
    train = list(_about(corpus.train, limit_bytes, rng))
    held_out = list(_about(corpus.held_out, limit_bytes, rng))
    free = [
        *smalltalk.dialogues(rng, SMALLTALK, name),
        *arithmetic.dialogues(rng, ARITHMETIC),
        *tools.tool_dialogues(rng, TOOLS),
        *builtin_objects.dialogues(rng, BUILTIN_REPEATS),
        *tools.json_dialogues(rng, JSON),
    ]
    for dialogue in free:
        digest = hashlib.sha256(dialogue.key.encode()).hexdigest()
        chosen = held_out if is_held_out(digest, "chat") else train
        chosen.extend(_documents(dialogue.key.split("/")[0], [dialogue]))
    trained = {item.sha256 for item in train}
    return Corpus(tuple(train), tuple(item for item in held_out if item.sha256 not in trained))
