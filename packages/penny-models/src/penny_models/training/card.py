"""The data card of a trained checkpoint, written from its results and its data manifest."""

from importlib import resources
from typing import Any

_COLUMNS = ("code", "prose", "chat", "all")


def _quality(name: str, bits_per_byte: dict[str, float]) -> str:
    return " | ".join([f"| {name}", *(f"{bits_per_byte[kind]:.3f}" for kind in _COLUMNS)]) + " |"


def _source(row: dict[str, Any]) -> str:
    shown = (row["name"], row["version"], row["licence"], f"{row['bytes']:,}", str(row["held_out_files"]))
    return f"| {' | '.join(shown)} |"


def _weights(losses: dict[str, float]) -> str:
    return ", ".join(f"{name} {weight:g}" for name, weight in losses.items())


def asset(name: str) -> str:
    """Return a text of ``assets``, a template for ``str.format``."""
    return resources.files("penny_models.training").joinpath(f"assets/{name}.md").read_text("utf-8")


def acceptance_table(measured: dict[str, Any]) -> str:
    """Return a measured acceptance as a Markdown table; without one, nothing."""
    rows = {key: value for key, value in measured.items() if key.startswith("temperature_")}
    if not rows:
        return ""
    slots = len(next(iter(rows.values()))["all"]["accepted_by_slot"])
    titles = ["Temperature", "Text", "Tokens a verify", "Repeated 4-grams", *map(str, range(1, slots + 1))]
    lines = [titles, ["---"] * len(titles)]
    for key, kinds in rows.items():
        for kind, found in kinds.items():
            shares = [f"{share:.0%}" for share in found["accepted_by_slot"]]
            values = [f"{found['tokens_per_verify']:.2f}", f"{found['repeated_4_grams']:.0%}"]
            lines.append([key.removeprefix("temperature_"), kind, *values, *shares])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nThe numbered columns: how often a draft is accepted whose predecessors were."


def write_draft_card(results: dict[str, Any], config: dict[str, Any]) -> str:
    """Return the card of a DFlash2 draft as Markdown, from its results and its ``config.json``."""
    ids = config["dflash_config"]["target_layer_ids"]
    return asset(results["name"]).format(
        results=results,
        config=config,
        layers=", ".join(map(str, ids)),
        acceptance=acceptance_table(results["acceptance"]),
    )


def write_card(results: dict[str, Any], manifest: dict[str, Any]) -> str:
    """Return the card as Markdown; every measured number in it comes from the two records.

    The text around them is in ``assets``: ``NAME.md``, ``nextn.md`` if there was that stage, and ``data.md``.
    """
    held = results["held_out"]
    by_kind = manifest["train_bytes_by_kind"]
    total = sum(by_kind.values())
    rows = {
        results["name"]: held["model"]["bits_per_byte"],
        "trigram": held["trigram"],
        "unigram": held["unigram"],
    }
    names = [results["name"], *(["nextn"] if "nextn" in results else []), "data"]
    return "\n".join(asset(name) for name in names).format(
        results=results,
        loss=_weights(results["loss_weights"]),
        nextn_loss=_weights(results.get("nextn", results)["loss_weights"]),
        nextn_acceptance=acceptance_table(held["model"].get("nextn_acceptance", {})),
        manifest=manifest,
        quality="\n".join(_quality(name, values) for name, values in rows.items()),
        shares=", ".join(f"{kind} {size / total:.1%}" for kind, size in by_kind.items()),
        megabytes=manifest["limit_bytes"] // 1_000_000,
        sources="\n".join(_source(row) for row in sorted(manifest["sources"], key=lambda row: -row["bytes"])),
    )
