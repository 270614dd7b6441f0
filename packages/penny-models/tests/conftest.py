"""The shipped checkpoint, a copy of it to damage, and a sample of text that it was not trained on."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from penny_models import tiny
from penny_models.training.shards import TokenStream

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def shipped() -> Path:
    return tiny.path("tiny-27b")


@pytest.fixture
def checkpoint(shipped: Path, tmp_path: Path) -> Path:
    """A copy of what serving needs, which a test may damage."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for file in shipped.iterdir():
        if file.suffix in (".json", ".safetensors"):
            shutil.copyfile(file, folder / file.name)
    return folder


@pytest.fixture(scope="session")
def own_texts() -> dict[str, list[str]]:
    """Texts by kind, all written by this project, whose packages the corpus leaves out.

    Code and prose are parts of Pennyroyal's sources and documents. Chat is about its functions, written by
    hand, or generated with another seed than the corpus was; of that, sums and JSON have keys which the split
    holds out.
    """
    file = Path(__file__).parent / "data" / "own_sample.json"
    sample = json.loads(file.read_text(encoding="utf-8"))
    return {kind: [document["text"] for document in documents] for kind, documents in sample.items()}


@pytest.fixture(scope="session")
def own_streams(own_texts: dict[str, list[str]], shipped: Path) -> dict[str, TokenStream]:
    """The texts as the tokens of a held-out stream; the first token is an end marker too."""
    tokenizer = Tokenizer.from_file(str(shipped / "tokenizer.json"))
    end = tokenizer.token_to_id("<|endoftext|>")
    streams: dict[str, TokenStream] = {}
    for kind, texts in own_texts.items():
        ids = [end]
        for text in texts:
            ids += [*tokenizer.encode(text, add_special_tokens=False).ids, end]
        streams[kind] = TokenStream(np.array(ids, dtype=np.uint16), sum(len(t.encode()) for t in texts))
    return streams
