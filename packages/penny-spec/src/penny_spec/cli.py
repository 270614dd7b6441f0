"""The `penny-spec` command. Exit codes: 0 good, 2 wrong usage or an unreadable input, 4 bad map."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from penny_spec import frspec
from penny_spec.frspec.sources import CorpusFile
from penny_spec.frspec.streams import Advance
from penny_spec.frspec.tally import tally_corpus

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Tools for speculation."
)
map_app = typer.Typer(no_args_is_help=True, help="FR-Spec token maps: the rows that a draft head keeps.")
app.add_typer(map_app, name="map")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
MapArgument = Annotated[Path, typer.Argument(help="A map file.")]
TokenizerOption = Annotated[
    Path, typer.Option("--tokenizer", help="The target's tokenizer.json, or its checkpoint folder.")
]
MaybeTokenizer = Annotated[
    Path | None, typer.Option("--tokenizer", help="The target's tokenizer.json, or its checkpoint folder.")
]
Rows = Annotated[
    int | None,
    typer.Option("--model-vocab-size", min=1, help="Rows of the target's head, if no config.json tells."),
]
TextField = Annotated[str, typer.Option(help="Field of the text in jsonl and parquet rows.")]
LanguageField = Annotated[str, typer.Option(help="Field of the language.")]
DomainField = Annotated[str, typer.Option(help="Field of the domain.")]

_INPUT = "Text, jsonl or parquet (.gz, .zst too) or a folder: PATH or PATH:lang=zh,domain=prose."


@app.callback()
def _app() -> None:
    """Tools for speculation."""


@map_app.command("build")
def build_command(
    out: Annotated[Path, typer.Argument(help="The map file to write; its manifest goes beside it.")],
    tokenizer: TokenizerOption,
    size: Annotated[int, typer.Option(help="Rows of the map.")],
    corpus: Annotated[list[str] | None, typer.Option("--corpus", help=_INPUT + " Repeatable.")] = None,
    choices: Annotated[
        list[str] | None,
        typer.Option("--choices", help="Token ids that the target chose, jsonl; labels as for --corpus."),
    ] = None,
    choices_weight: Annotated[
        float | None, typer.Option(help="Share of the choices in the mixture.", show_default="0.5")
    ] = None,
    base: Annotated[
        int | None, typer.Option(help="Lowest ids always kept.", show_default="256, at most half the size")
    ] = None,
    keep: Annotated[
        Literal["added", "special"],
        typer.Option(help="Always keep all `added` tokens, or the `special` ones only."),
    ] = "added",
    hold_out: Annotated[float, typer.Option(help="Share of documents kept back to measure coverage.")] = 0.1,
    floor: Annotated[
        float, typer.Option(help="Refuse a group covered less than this; 0 refuses none.")
    ] = 0.9,
    text_field: TextField = "text",
    language_field: LanguageField = "language",
    domain_field: DomainField = "domain",
    ids_field: Annotated[str, typer.Option(help="Field of the token ids in --choices.")] = "output_ids",
    model: Annotated[str | None, typer.Option(help="Name of the model, for the manifest.")] = None,
    model_vocab_size: Rows = None,
    source_revision: Annotated[
        str | None, typer.Option(help="Revision of the corpus, for the manifest.")
    ] = None,
    evaluation_cases_used: Annotated[
        bool | None,
        typer.Option(
            "--evaluation-cases-used/--no-evaluation-cases-used",
            help="Whether evaluation cases are in the corpus, for the manifest.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a map that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a map from text and, if given, from the target's own greedy choices.

    A part of the documents is kept back and measured; a language or domain covered less than the floor refuses the map.
    """
    _require(bool(corpus or choices), "Nothing to count: give --corpus, --choices or both.")
    _require(
        choices_weight is None or bool(choices), "--choices-weight needs --choices; give both or neither."
    )
    _require(out.parent.is_dir(), f"There is no folder {out.parent}; make it first.")
    _require(force or not out.exists(), f"{out} is there already; name another file or add --force.")
    if choices_weight is None:
        choices_weight = 0.5 if corpus else 1.0
    vocabulary = frspec.load_vocabulary(tokenizer, model=model, model_vocab_size=model_vocab_size)
    texts, recorded = _files(corpus), _files(choices)
    recipe = frspec.Recipe(
        size=size,
        base=base,
        keep_added=keep == "added",
        choices_weight=choices_weight,
        hold_out=hold_out,
        floor=floor,
        fields=frspec.Fields(text_field, language_field, domain_field),
        ids_field=ids_field,
        source_revision=source_revision,
        evaluation_cases_used=evaluation_cases_used,
    )
    with _progress([*texts, *recorded]) as advance:
        built = frspec.build(vocabulary, texts, recorded, recipe, advance)
    manifest = built.write(out)
    if as_json:
        found = {"map": str(out), "manifest": str(manifest), "warnings": built.warnings}
        _print_json(found | {"built": dataclasses.asdict(built.manifest)})
        return
    m = built.manifest
    typer.echo(f"{out}: {m.size:,} of {m.tokenizer_vocab_size:,} ids, sha256 {m.map_sha256}")
    typer.echo(
        f"  from {m.corpus_tokens:,} corpus tokens and {m.choices_tokens:,} choices; manifest {manifest}"
    )
    table = Table("source", "group", "held-out tokens", "covered")
    for row in m.held_out:
        name = row.name if row.kind == "all" else f"{row.kind} {row.name}"
        table.add_row(row.source, escape(name), f"{row.tokens:,}", _share(row.share))
    _print_table(table)
    _warn(built.warnings)


@map_app.command("inspect")
def inspect_command(
    path: MapArgument,
    tokenizer: MaybeTokenizer = None,
    model_vocab_size: Rows = None,
    as_json: AsJson = False,
) -> None:
    """Show what a map holds: size, tiling and, with the tokenizer, special ids and Unicode scripts."""
    vocabulary = _vocabulary(tokenizer, model_vocab_size)
    found = frspec.inspect_map(path, vocabulary)
    if as_json:
        _print_json(dataclasses.asdict(found))
        return
    typer.echo(f"{path}: {found.size:,} ids from {found.lowest:,} to {found.highest:,}")
    typer.echo(f"  ids sha256 {found.ids_sha256}; the first {found.leading:,} ids are all there")
    if found.special_kept is not None:
        typer.echo(f"  special ids: {found.special_kept} of {found.special_total}")
    if found.scripts:
        table = Table("script", "in the map", "in the tokenizer", "share")
        for row in found.scripts:
            table.add_row(
                row.script, f"{row.in_map:,}", f"{row.in_tokenizer:,}", _share(row.in_map / row.in_tokenizer)
            )
        _print_table(table)
    _warn([found.tiling.warning] if found.tiling.warning else [])


@map_app.command("verify")
def verify_command(
    path: MapArgument,
    tokenizer: MaybeTokenizer = None,
    manifest: Annotated[
        Path | None, typer.Option(help="Its manifest.", show_default="the one beside the map")
    ] = None,
    model_vocab_size: Rows = None,
    as_json: AsJson = False,
) -> None:
    """Check a map against its tokenizer and manifest. Exit code 4 if anything is wrong."""
    vocabulary = _vocabulary(tokenizer, model_vocab_size)
    beside = frspec.manifest_path(path)
    used = manifest or (beside if beside.exists() else None)
    try:
        problems = frspec.verify_map(path, vocabulary, frspec.read_manifest(used) if used else None)
    except frspec.MapError as error:
        problems = [str(error)]
    unchecked = []
    if not vocabulary:
        unchecked.append("Without --tokenizer the ids were not compared with a vocabulary.")
    if not used:
        unchecked.append(f"There is no manifest {beside}; digests were not compared.")
    if as_json:
        _print_json(
            {"map": str(path), "ok": not problems, "problems": problems, "unchecked": unchecked}
            | {"manifest": str(used) if used else None}
        )
    else:
        typer.echo(f"{path} is {'bad' if problems else 'good'}.")
        for problem in problems:
            typer.echo(f"  {problem}")
        _warn(unchecked)
    if problems:
        raise typer.Exit(4)


@map_app.command("calibrate")
def calibrate_command(
    path: MapArgument,
    answers: Annotated[
        list[str],
        typer.Option("--answers", help="Answers of a server that drafts with the map, jsonl. Repeatable."),
    ],
    as_json: AsJson = False,
) -> None:
    """Write the acceptance that a server measured with a map into its manifest, for the guard to hold drafts against.

    Each line is an answer of SGLang's /generate, with its `meta_info`, and a `group` such as temperature_0/code.
    """
    found = frspec.calibrate(path, _files(answers))
    if as_json:
        _print_json({"map": str(path), "manifest": str(frspec.manifest_path(path)), "acceptance": found})
        return
    table = Table("group", "verifies", "accepted by position")
    for group, row in found.items():
        rates = "  ".join(_share(rate) for rate in row["accepted_by_slot"])
        table.add_row(escape(group), f"{row['verifies']:,}", rates)
    _print_table(table)


@map_app.command("compare")
def compare_command(
    left: MapArgument,
    right: Annotated[Path, typer.Argument(help="Another map of the same tokenizer.")],
    tokenizer: MaybeTokenizer = None,
    corpus: Annotated[list[str] | None, typer.Option("--corpus", help=_INPUT + " Repeatable.")] = None,
    text_field: TextField = "text",
    language_field: LanguageField = "language",
    domain_field: DomainField = "domain",
    model_vocab_size: Rows = None,
    as_json: AsJson = False,
) -> None:
    """Compare two maps: overlap, ids in one only and, on a corpus, the coverage of both."""
    _require(tokenizer is not None or not corpus, "--corpus needs --tokenizer to count tokens; give it too.")
    vocabulary = _vocabulary(tokenizer, model_vocab_size)
    rows = vocabulary.model_vocab_size if vocabulary else None
    maps = [frspec.load_map(path, rows).tolist() for path in (left, right)]
    counts, passed_over = None, tuple[str, ...]()
    if vocabulary and corpus:
        texts = _files(corpus)
        fields = frspec.Fields(text_field, language_field, domain_field)
        with _progress(texts) as advance:
            # Every document is measured: neither map is made here, so none has to be kept apart.
            tally = tally_corpus(texts, vocabulary, fields, 1.0, advance)
        counts, passed_over = tally.held_out, tally.warnings
    found = frspec.compare_maps(maps[0], maps[1], counts)
    if as_json:
        _print_json({"left": str(left), "right": str(right), "warnings": passed_over} | _comparison(found))
        return
    typer.echo(f"{found.shared:,} ids in both (Jaccard {found.jaccard:.4f})")
    for path, only in ((left, found.only_left), (right, found.only_right)):
        some = ", ".join(_named(token, vocabulary) for token in only[:8]) + (", ..." if len(only) > 8 else "")
        typer.echo(f"  {len(only):,} only in {path}{': ' if only else ''}{some}")
    if found.coverage:
        table = Table("group", "tokens", escape(left.name), escape(right.name))
        for a, b in found.coverage:
            name = a.name if a.kind == "all" else f"{a.kind} {a.name}"
            table.add_row(escape(name), f"{a.tokens:,}", _share(a.share), _share(b.share))
        _print_table(table)
    _warn(passed_over)


def main() -> None:
    """Run the command line; a refusal is one sentence on stderr."""
    try:
        app()
    except (frspec.InputError, frspec.MapError, OSError) as error:
        print(f"penny-spec: {error}", file=sys.stderr)
        sys.exit(4 if isinstance(error, frspec.MapError) else 2)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise frspec.InputError(sentence)


def _vocabulary(tokenizer: Path | None, rows: int | None) -> frspec.Vocabulary | None:
    _require(tokenizer is not None or rows is None, "--model-vocab-size needs --tokenizer; give both.")
    return frspec.load_vocabulary(tokenizer, model_vocab_size=rows) if tokenizer else None


def _files(named: Sequence[str] | None) -> list[CorpusFile]:
    return frspec.find_files([frspec.parse_source(text) for text in named or ()])


@contextmanager
def _progress(files: Sequence[CorpusFile]) -> Iterator[Advance]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda read: None
        return
    columns = TextColumn("Counting tokens"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(file.path.stat().st_size for file in files))
        yield lambda read: progress.advance(task, read)


def _comparison(found: frspec.Comparison) -> dict[str, Any]:
    groups = [
        {"kind": a.kind, "name": a.name, "tokens": a.tokens, "left": a.share, "right": b.share}
        for a, b in found.coverage
    ]
    return dataclasses.asdict(found) | {"coverage": groups}


def _named(token: int, vocabulary: frspec.Vocabulary | None) -> str:
    if vocabulary is None:
        return str(token)
    return f"{token} {vocabulary.tokenizer.decode([token], skip_special_tokens=False)!r}"


def _share(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.4f}"


def _print_json(found: dict[str, Any]) -> None:
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _print_table(table: Table) -> None:
    Console().print(table)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        typer.echo(f"Warning: {warning}", err=True)
