"""The data card of a trained checkpoint, written from its results and its data manifest."""

from importlib import resources
from typing import Any

_COLUMNS = ("code", "prose", "chat", "all")


def _quality(name: str, bits_per_byte: dict[str, float]) -> str:
    return " | ".join([f"| {name}", *(f"{bits_per_byte[kind]:.3f}" for kind in _COLUMNS)]) + " |"


def _source(row: dict[str, Any]) -> str:
    shown = (row["name"], row["version"], row["licence"], f"{row['bytes']:,}", str(row["held_out_files"]))
    return f"| {' | '.join(shown)} |"


def write_card(results: dict[str, Any], manifest: dict[str, Any]) -> str:
    """Return the card as Markdown; every measured number in it comes from the two records.

    The text around them is ``assets/NAME.md`` and ``assets/data.md``, templates for ``str.format``.
    """
    held = results["held_out"]
    by_kind = manifest["train_bytes_by_kind"]
    total = sum(by_kind.values())
    rows = {
        results["name"]: held["model"]["bits_per_byte"],
        "trigram": held["trigram"],
        "unigram": held["unigram"],
    }
    assets = resources.files("penny_models.training").joinpath("assets")
    parts = [assets.joinpath(f"{part}.md").read_text("utf-8") for part in (results["name"], "data")]
    return "\n".join(parts).format(
        results=results,
        loss=", ".join(f"{name} {weight:g}" for name, weight in results["loss_weights"].items()),
        manifest=manifest,
        quality="\n".join(_quality(name, values) for name, values in rows.items()),
        shares=", ".join(f"{kind} {size / total:.1%}" for kind, size in by_kind.items()),
        megabytes=manifest["limit_bytes"] // 1_000_000,
        sources="\n".join(_source(row) for row in sorted(manifest["sources"], key=lambda row: -row["bytes"])),
    )
