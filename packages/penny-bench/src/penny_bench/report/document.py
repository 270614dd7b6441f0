"""The JSON document of a measurement: everything that was seen, and how it was made."""

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penny_bench.measure import DecodeResult
from penny_bench.report.files import write_text
from penny_bench.report.rows import rows

SCHEMA = "penny-bench/decode/1"


def document(result: DecodeResult, command: str, started: datetime, version: str) -> dict[str, Any]:
    """The document of a result. The API key is left out; all times are in seconds."""
    server = asdict(result.server)
    del server["api_key"], server["count"]
    return {
        "schema": SCHEMA,
        "command": command,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "client": {
            "penny_bench": version,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "server": server,
        "plan": asdict(result.plan),
        "summary": [asdict(row) for row in rows(result)],
        "preflight": [asdict(record) for record in result.preflight],
        "groups": [{**asdict(group), "rates": asdict(group.rates)} for group in result.groups],
    }


def write_json(path: Path, value: dict[str, Any], indent: int | None = 1) -> None:
    """Write the document whole or not at all; on one line without `indent`.

    Raises:
        BenchError: the file system refused; the message names path and reason.
    """
    write_text(path, json_text(value, indent))


def json_text(value: dict[str, Any], indent: int | None = 1) -> str:
    """The document as the text of a file."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent) + "\n"
