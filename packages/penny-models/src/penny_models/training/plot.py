"""Draw the loss curve as a PNG (needs matplotlib: the ``training`` extra)."""

import json
from pathlib import Path


def draw_loss_curve(curve: Path, png: Path, name: str) -> None:
    """Draw ``loss_curve.json``: losses in nats per token over training tokens, smoothed over 25 points."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    data = json.loads(curve.read_text())
    columns = {name: [row[index] for row in data["rows"]] for index, name in enumerate(data["columns"])}
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=110)
    labels = {"main": "next token"} | {f"mtp{k}": f"draft step {k} (t+{k + 1})" for k in range(1, 4)}
    millions = [tokens / 1e6 for tokens in columns["tokens"]]
    for column, label in labels.items():
        values = columns.get(column, [])
        smooth = [
            sum(values[max(0, i - 24) : i + 1]) / len(values[max(0, i - 24) : i + 1])
            for i in range(len(values))
        ]
        if values:
            axes.plot(millions, smooth, label=label, linewidth=1.2)
    axes.set(
        xlabel="training tokens (millions)", ylabel="loss (nats per token)", title=f"{name} training loss"
    )
    axes.set_ylim(bottom=0, top=6)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(png)
    pyplot.close(figure)
