"""`penny-bench import`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_bench import __version__
from penny_bench.errors import BenchError
from penny_bench.evidence.redact import command
from penny_bench.importers.document import imported
from penny_bench.importers.foreign import Foreign
from penny_bench.importers.guidellm import read_guidellm
from penny_bench.importers.sglang import read_sglang
from penny_bench.importers.vllm import read_vllm
from penny_bench.report import write_json
from penny_bench.report.files import check_folder


class Tool(StrEnum):
    """Tools whose results can be read."""

    sglang = "sglang"
    vllm = "vllm"
    guidellm = "guidellm"


def import_result(
    tool: Annotated[Tool, typer.Argument(help="The tool that made it.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="Its result: sglang --output-file, vllm --save-result, guidellm --output kind=json."
        ),
    ],
    json_file: Annotated[Path, typer.Option("--json", help="Write the document to this file.")],
    number: Annotated[
        int | None, typer.Option(help="Which run of a file of SGLang with several, from 1.")
    ] = None,
) -> None:
    """Turn a result of another tool into a document that can be reported, compared and put into a history.

    What the tool does not tell stays null, and pauses between chunks are never called pauses between tokens.
    Exit status: 0 written, 2 it cannot be read.
    """
    check_folder(json_file, "--json")
    if number is not None and tool is not Tool.sglang:
        raise BenchError("--number is for files of SGLang; leave it out.")
    foreign = read(tool, file, number)
    document = imported(foreign, command(["penny-bench", *sys.argv[1:]]), __version__)
    write_json(json_file, document, indent=None)
    summary = document["summary"]
    console = Console(highlight=False, markup=False)
    console.print(
        f"{summary['succeeded']} of {summary['requests']} requests succeeded; {len(document['metrics'])} metrics are "
        f"known. {foreign.note}",
        soft_wrap=True,
    )


def read(tool: Tool, file: Path, number: int | None = None) -> Foreign:
    """Read a result file of a tool.

    Raises:
        BenchError: it cannot be read, or is no result of that tool.
    """
    try:
        data = file.read_bytes()
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except OSError as error:
        raise BenchError(f"Could not read {file}: {error.strerror}.") from error
    if tool is Tool.sglang:
        return read_sglang(file.name, data, written, number)
    if tool is Tool.vllm:
        return read_vllm(file.name, data, written)
    return read_guidellm(file.name, data)
