"""Unicode scripts of tokens, to see at a glance which languages a map serves."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from penny_spec.frspec.vocabulary import Vocabulary

_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "HENTAIGANA": "Hiragana", "LETTER": "Latin"}
_WIDTHS = ("FULLWIDTH", "HALFWIDTH", "MODIFIER", "SMALL", "CIRCLED", "SQUARED", "PARENTHESIZED")
_LETTERS_OF = ("CYRILLIC", "GEORGIAN", "GREEK")
"""Scripts with letters named `MODIFIER LETTER <script> ...`; the other modifier letters are mostly Latin."""
ADDED, PARTIAL, NO_LETTERS = "added tokens", "parts of a character", "no letters"


@dataclass(frozen=True)
class ScriptRow:
    """Tokens of one script: those in the map, and those of the whole tokenizer."""

    script: str
    in_map: int
    in_tokenizer: int


def script_of(text: str) -> str:
    """The script that most letters of `text` belong to, between equals the first one met.

    The script of a letter is the first word of its Unicode name, which for living scripts is the Script property
    (CJK ideographs are `Han`). Text without letters is `no letters`; text with U+FFFD, which is how a tokenizer shows
    bytes that are no whole character, is `parts of a character`.
    """
    if "\ufffd" in text:
        return PARTIAL
    letters = Counter(_script(char) for char in text if unicodedata.category(char)[0] == "L")
    return letters.most_common(1)[0][0] if letters else NO_LETTERS


def scripts(ids: Iterable[int], vocabulary: Vocabulary) -> list[ScriptRow]:
    """Tokens by script, in the map and in the tokenizer; scripts with most tokens first."""
    held = frozenset(ids)
    added = frozenset(vocabulary.added_ids)
    tokens = vocabulary.tokenizer.decode_batch([[i] for i in vocabulary.ids], skip_special_tokens=False)
    whole, part = Counter[str](), Counter[str]()
    for token_id, text in zip(vocabulary.ids, tokens, strict=True):
        script = ADDED if token_id in added else script_of(text)
        whole[script] += 1
        part[script] += token_id in held
    return [ScriptRow(name, part[name], n) for name, n in sorted(whole.items(), key=lambda i: (-i[1], i[0]))]


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    words = unicodedata.name(letter, "UNNAMED").replace("-", " ").split()
    if words[0] in _WIDTHS and len(words) > 1:
        words = words[1:]
    if words[0] == "LETTER" and words[1:2] and words[1] in _LETTERS_OF:
        words = words[1:]
    return _NAMES.get(words[0], words[0].capitalize())
