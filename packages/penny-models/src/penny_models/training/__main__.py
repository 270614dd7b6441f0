"""The training command line."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Make a tiny checkpoint.")

Folder = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="The folder that the data step filled.")
]


@app.command()
def data(
    folder: Annotated[Path, typer.Argument(file_okay=False, help="The folder to fill.")],
    name: Annotated[str, typer.Option(help="The checkpoint that the data are for.")] = "tiny-27b",
    seed: int = 27,
    megabytes: Annotated[int, typer.Option(help="Upper bound of the text from files.")] = 75,
    tokenizer: Annotated[
        Path | None, typer.Option(exists=True, help="Take this tokenizer.json instead of training one.")
    ] = None,
) -> None:
    """Collect the text, train the tokenizer, write token files, baselines and the manifest."""
    from penny_models.training.data import build_data
    from penny_models.training.recipes import RECIPES

    if name not in RECIPES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(RECIPES)}.", param_hint="--name")
    record = build_data(folder, name, seed, megabytes * 1_000_000, tokenizer)
    typer.echo(
        f"{record['train_tokens']:,} training tokens of {record['train_bytes']:,} bytes; {record['sha256']}"
    )


@app.command("train")
def train_command(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Where weights, results and loss curve go.")],
    minutes: Annotated[float, typer.Option(help="Training time by the clock.")] = 9.0,
    steps: Annotated[int | None, typer.Option(help="Train this many steps instead, to repeat a run.")] = None,
    batch: Annotated[int, typer.Option(help="Sequences in a step.")] = 16,
    length: Annotated[int | None, typer.Option(help="Tokens in a sequence, for a trial.")] = None,
    evaluated: Annotated[int | None, typer.Option(help="Held-out tokens of each kind, for a trial.")] = None,
    graph: Annotated[bool, typer.Option(help="Capture the step as a CUDA graph.")] = True,
    seed: int = 27,
) -> None:
    """Train on the data folder, with CUDA when there is a GPU, and evaluate the saved weights."""
    from penny_models.training.loop import Plan
    from penny_models.training.run import run

    results = run(folder, out, Plan(minutes, steps, graph), batch, length, seed, evaluated)
    typer.echo(json.dumps({key: results[key] for key in ("steps", "tokens", "held_out")}, indent=2))


@app.command("nextn")
def nextn_command(
    folder: Folder,
    trained: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A training run's output, or a checkpoint.")
    ],
    out: Annotated[Path, typer.Option(help="Where weights, results and the curve go.")],
    minutes: Annotated[float, typer.Option(help="Training time by the clock.")] = 2.0,
    steps: Annotated[int | None, typer.Option(help="Train this many steps instead, to repeat a run.")] = None,
    small: Annotated[bool, typer.Option(help="Tiny sizes, for a trial.")] = False,
    seed: int = 27,
) -> None:
    """Let the NEXTN layer learn to draft three steps of the model's own text, and measure its acceptance."""
    from penny_models.training.nextn.train import Sizes, train_nextn

    sizes = Sizes.small() if small else Sizes()
    results = train_nextn(folder, trained, out, minutes, steps, sizes, seed)
    typer.echo(json.dumps(results["held_out"]["model"]["nextn_acceptance"], indent=2))


@app.command("dflash")
def dflash_command(
    folder: Folder,
    target: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The checkpoint that the draft is for.")
    ],
    out: Annotated[Path, typer.Option(help="Where the draft, its results and its curve go.")],
    minutes: Annotated[float, typer.Option(help="Training time by the clock.")] = 4.0,
    steps: Annotated[int | None, typer.Option(help="Train this many steps instead, to repeat a run.")] = None,
    small: Annotated[bool, typer.Option(help="Tiny sizes, for a trial on a processor.")] = False,
    graph: Annotated[bool, typer.Option(help="Capture the steps as CUDA graphs.")] = True,
    seed: int = 27,
) -> None:
    """Train a DFlash2 draft on the target's own text and hidden states, and measure its acceptance."""
    from penny_models.training.dflash.batches import Sizes
    from penny_models.training.dflash.train import Measure, train_draft

    sizes, measured = (Sizes.small(), Measure(4, 64, 32)) if small else (None, None)
    results = train_draft(folder, target, out, minutes, steps, sizes, measured, graph, seed)
    typer.echo(json.dumps(results["acceptance"], indent=2))


@app.command("install")
def install_command(
    folder: Folder,
    out: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The output folder of the training step.")
    ],
    checkpoint: Annotated[Path, typer.Argument(help="The checkpoint folder to fill.")],
) -> None:
    """Put weights, configuration, tokenizer, data card and records together, and check them."""
    from penny_models.training.install import install

    report = install(folder, out, checkpoint)
    typer.echo(f"{report.path}: {report.parameters:,} parameters in {report.shards} files")


@app.command("install-nextn")
def install_nextn_command(
    out: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The output folder of the nextn step.")
    ],
    checkpoint: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The checkpoint that the step started from.")
    ],
) -> None:
    """Put the NEXTN step's weights, records and card into a checkpoint, and check it."""
    from penny_models.training.install import install_nextn

    report = install_nextn(out, checkpoint)
    typer.echo(f"{report.path}: {report.parameters:,} parameters in {report.shards} files")


@app.command("install-draft")
def install_draft_command(
    out: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="The output folder of the dflash step.")
    ],
    checkpoint: Annotated[Path, typer.Argument(help="The checkpoint folder to fill.")],
) -> None:
    """Put a draft's weights, configuration, data card and records together."""
    from penny_models.training.install import install_draft

    install_draft(out, checkpoint)
    typer.echo(f"{checkpoint}: {sum(file.stat().st_size for file in checkpoint.iterdir()):,} bytes")


if __name__ == "__main__":
    app()
