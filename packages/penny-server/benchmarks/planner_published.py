"""Writes what the planner says of the pools that others have published: python planner_published.py FILE."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penny_server.plan.constants import CONTEXT, GIB, UNEXPLAINED
from penny_server.plan.machines import GPUS
from penny_server.plan.published import CHARGE_30, FREE_POINTS, POINTS, predicted, predicted_free


def main(out: Path) -> None:
    """Writes ``out``."""
    rows: list[dict[str, Any]] = []
    for point in POINTS:
        found = predicted(point)
        rows.append(
            {
                "published": point.tokens,
                "planned": found,
                "difference_percent": round(100 * (found / point.tokens - 1), 3),
                "use": point.use,
                "config": point.model,
                "source": point.source,
                "not_stated": point.unstated,
                "settings": {
                    key: value
                    for key, value in asdict(point.settings).items()
                    if key
                    in (
                        *("fraction", "requests", "slots", "strategy", "ssm_dtype", "draft_tokens"),
                        *("recover_ssm", "charge_states", "online_fp8"),
                    )
                },
            }
        )
    document = {
        "what": "the planner against published pools of one RTX PRO 6000",
        "command": "python packages/penny-server/benchmarks/planner_published.py docs/results/planner-published.json",
        "card": asdict(GPUS["rtx-pro-6000"]),
        "constants": [
            *(
                {"gib": round(constant.bytes / GIB, 4), **asdict(constant)}
                for constant in (CONTEXT, *UNEXPLAINED.values())
            ),
            {
                "gib": round(CHARGE_30 / GIB, 4),
                "name": "charged for verification by the 3.0 build",
                "bytes": CHARGE_30,
                "kind": "fitted",
                "source": "the published pool of 1,067,072 tokens",
            },
        ],
        "summary": [
            [row["published"], row["planned"], round(abs(row["planned"] / row["published"] - 1), 6)]
            for row in rows
        ],
        "points": rows,
        "free_memory": [
            {
                "pool": point.tokens,
                "published_gib": point.gib,
                "planned_gib": round(predicted_free(point), 2),
                "source": point.source,
            }
            for point in FREE_POINTS
        ],
    }
    out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
