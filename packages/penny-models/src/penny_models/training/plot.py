"""Draw the loss curve as a PNG (needs matplotlib: the ``training`` extra)."""

import json
from pathlib import Path

LABELS = {
    "main": "next token",
    **{f"mtp{step}": f"draft step {step} (t+{step + 1})" for step in range(1, 4)},
    "unary": "draft, place by place",
    "selector": "candidate selector",
}
SMOOTHED = 25


def smoothed(values: list[float]) -> list[float]:
    """Return the mean of each value and up to 24 before it."""
    parts = [values[max(0, index - SMOOTHED + 1) : index + 1] for index in range(len(values))]
    return [sum(part) / len(part) for part in parts]


def draw_loss_curve(curve: Path, png: Path, name: str) -> None:
    """Draw ``loss_curve.json``: losses in nats per token, over training tokens or, where none are counted, steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    data = json.loads(curve.read_text())
    columns = {key: [row[index] for row in data["rows"]] for index, key in enumerate(data["columns"])}
    counted = "tokens" in columns
    along = [tokens / 1e6 for tokens in columns["tokens"]] if counted else columns["step"]
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=80)
    for column, label in LABELS.items():
        if column in columns:
            axes.plot(along, smoothed(columns[column]), label=label, linewidth=1.2)
    axes.set(
        xlabel="training tokens (millions)" if counted else "steps",
        ylabel="loss (nats per token)",
        title=f"{name} training loss",
    )
    axes.set_ylim(bottom=0, top=6)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(png, pil_kwargs={"optimize": True})
    pyplot.close(figure)
