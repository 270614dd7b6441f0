"""The draft-vocabulary map (FR-Spec) against the checkpoint: form, range, tokenizer and its own manifest."""

from __future__ import annotations

import re
from pathlib import Path

from penny_server.errors import ExitCode
from penny_server.profiles.rules.base import Case, refuse

REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*/[\w.-]+")
"""OWNER/NAME/FILE, which stock fetches from a hub."""
ROWS = 65_536
"""Of the map that the reference serves Flash-Next with."""


def check_token_map(case: Case, folder: Path) -> None:
    """Raises PennyError (checkpoint) for a map that is none, or that was made for another model than ``folder``'s.

    Stock loads a map without a look at it: ids of another vocabulary are drafted as other words. A map's manifest
    lies beside it as ``NAME.manifest.json``; without one only form and range can be checked.
    """
    given = str(case.get("speculative_token_map", ""))
    path = Path(given)
    if not given or (REPOSITORY.fullmatch(given) and not path.exists()):
        return
    if not path.is_file():
        refuse(
            f"speculative_token_map is {given}, and there is no such file.",
            f"Build one from text of what you serve: penny-spec map build {given} --tokenizer {folder} --size {ROWS} "
            "--corpus TEXTS. Or draft over the whole vocabulary: --set speculative_token_map=",
            ExitCode.CHECKPOINT,
        )
    from penny_spec import frspec

    try:
        vocabulary = frspec.load_vocabulary(folder)
        beside = frspec.manifest_path(path)
        manifest = frspec.read_manifest(beside) if beside.is_file() else None
        frspec.load_map(path, vocabulary.model_vocab_size)
        problems = frspec.verify_map(path, vocabulary, manifest) if manifest else []
    except (frspec.MapError, frspec.InputError) as error:
        refuse(str(error), "penny-spec map verify tells more.", ExitCode.CHECKPOINT)
    if problems:
        refuse(
            f"The token map {path} was not made for {folder.name}: {problems[0]}",
            f"Build one: penny-spec map build {path.name} --tokenizer {folder}",
            ExitCode.CHECKPOINT,
        )
