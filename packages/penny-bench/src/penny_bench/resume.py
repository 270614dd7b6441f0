"""Going on with a run that was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.evidence import SCHEMA, load_part, redact
from penny_bench.load import RunPlan
from penny_bench.workload import Workload


def read_partial(path: Path) -> dict[str, Any]:
    """Read a partial document.

    Raises:
        BenchError: it cannot be read, is no evidence of a run, or nothing of it is missing.
    """
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}; correct --resume.") from error
    except ValueError as error:
        raise BenchError(f"{path} is not JSON; give a file that penny-bench run --json wrote.") from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise BenchError(f"{path} has the schema {found!r}; a run can be resumed from {SCHEMA}.")
    if document["status"] != "partial":
        raise BenchError(f"The run in {path} is {document['status']}, so there is nothing to resume.")
    return dict(document)


def check_resumable(document: dict[str, Any], what: RunPlan | Workload, seed: int) -> None:
    """Refuse to go on with something else than was begun.

    Raises:
        BenchError: names what differs.
    """
    if seed != document["plan"]["seed"]:
        raise BenchError(f"The run had the seed {document['plan']['seed']}, not {seed}; leave out --seed.")
    before = document["workload"]
    if isinstance(what, Workload):
        if before is None or before["digest"] != what.digest:
            named = "no workload" if before is None else f"{before['name']} with {before['settings']}"
            raise BenchError(f"The run was of {named}; give the same --workload and --set again.")
        return
    if before is not None:
        raise BenchError(f"The run was of the workload {before['name']}; name it with --workload.")
    plan = document["plan"]
    now = {
        "load": load_part(what.load),
        "tokens": what.tokens,
        "prompt_tokens": what.prompt_tokens,
        "same_prompt": what.same_prompt,
        "random_prompts": what.random_prompts,
    }
    for key, value in now.items():
        if plan[key] != value:
            raise BenchError(f"The run had {key} {plan[key]}, not {value}; give the same options again.")


def check_server(document: dict[str, Any], model: str) -> None:
    """Refuse to go on with another model: its requests would be counted as those of the first.

    Raises:
        BenchError: names both.
    """
    before = document["server"]["model"]
    if redact.text(model) != before:
        raise BenchError(
            f"The run was of the model {before}, and the server has {model}; give the same --url and --model again."
        )


def earlier_entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the new document says of the parts before it."""
    seconds = document["seconds"] - sum(part["seconds"] for part in document["earlier"])
    requests = len(document["requests"]) + len(document["warmups"])
    entry = {"started": document["started"], "seconds": round(seconds, 6), "requests": requests}
    return [*document["earlier"], entry]
