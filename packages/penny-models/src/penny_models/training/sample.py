"""The small held-out sample that travels with a checkpoint, so that its quality can be checked anywhere."""

from typing import Any

import numpy as np
from tokenizers import Tokenizer

from penny_models.training.config import VOCAB_SIZE
from penny_models.training.ngram import NGram
from penny_models.training.shards import TokenStream

SAMPLE_TOKENS = 2048


def held_out_sample(
    held_out: dict[str, TokenStream], train: TokenStream, tokenizer: Tokenizer
) -> dict[str, dict[str, Any]]:
    """Return by kind the text of the first held-out tokens, their count and the trigram's nats on them.

    The text starts after the first end of a document and is cut where tokens end on whole characters.
    """
    model = NGram.count(train.tokens, VOCAB_SIZE)
    end = tokenizer.token_to_id("<|endoftext|>")
    sample: dict[str, dict[str, Any]] = {}
    for kind, stream in held_out.items():
        first = int(np.flatnonzero(stream.tokens == end)[0]) + 1
        ids = stream.tokens[first : first + SAMPLE_TOKENS]
        text = tokenizer.decode(ids.tolist(), skip_special_tokens=False).rstrip("\ufffd")
        again = np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.uint16)
        sample[kind] = {
            "text": text,
            "tokens": len(again),
            "trigram_nats": model.trigram_nll(again),
        }
    return sample
