"""How often the guard alarms on healthy servers, and how soon on broken ones, by simulation.

    python packages/penny-spec/benchmarks/guard_alarms.py --out FILE

The expectation is that of tiny-next's results.json (`nextn_acceptance`, 3 draft positions). 200 servers of
100,000 tokens for each healthy case: every calibrated group alone, a mixture whose group changes every 100
verifications, and a map of one group at the public report's 0.57. Broken cases start after 10,000 healthy tokens: all
rates cut as in that report, 0.57 to 0.06 (Chinese text on a public 64K map with 13 CJK tokens), milder cuts, and
acceptance stuck at nothing or at everything. Simulated verifications are independent and those of a text are not, so
the guard of tiny-27b also reads the recorded traces of its texts; the output says how near it came to the threshold.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import penny_spec
from penny_models import tiny
from penny_spec.adaptive import read_trace, served
from penny_spec.guard import Expectation, Guard
from penny_spec.guard.simulate import Ints, draw, first_alarms

SERVERS = 200
HEALTHY_TOKENS = 100_000
BEFORE_TOKENS = 10_000
BAR_TOKENS = 2_000
REPORT = (0.57, 0.06)
BLOCK = 100
SEED = 6
Rates = tuple[float, ...]


def until(counts: Ints, tokens: int) -> Ints:
    """Return how many verifications each row needs for `tokens` tokens, int64 (servers,)."""
    return (np.cumsum(counts + 1, axis=1) < tokens).sum(axis=1) + 1


def mixture(groups: list[Rates], shape: tuple[int, int], generator: np.random.Generator) -> Ints:
    """Draw counts whose group changes at random every `BLOCK` verifications."""
    each = np.stack([draw(rates, shape, generator) for rates in groups])
    chosen = generator.integers(0, len(groups), (shape[0], -(-shape[1] // BLOCK))).repeat(BLOCK, axis=1)
    return np.take_along_axis(each, chosen[None, :, : shape[1]], axis=0)[0]


def healthy(guard: Guard, groups: list[Rates], generator: np.random.Generator) -> dict[str, Any]:
    """Return the alarms of healthy servers within 100,000 tokens."""
    alarms = 0
    for _ in range(SERVERS // 20):  # 20 at a time bounds the memory
        counts = mixture(groups, (20, HEALTHY_TOKENS), generator)
        first = first_alarms(guard, counts, BLOCK).first
        alarms += int(((first >= 0) & (first < until(counts, HEALTHY_TOKENS))).sum())
    return {"servers": SERVERS, "tokens": HEALTHY_TOKENS, "alarms": alarms}


def broken(guard: Guard, before: Rates, after: Rates, generator: np.random.Generator) -> dict[str, Any]:
    """Return the delay, in tokens after the break, of servers that are healthy for 10,000 tokens first."""
    good = draw(before, (SERVERS, BEFORE_TOKENS), generator)
    bad = draw(after, (SERVERS, 2 * BAR_TOKENS), generator)
    ends = until(good, BEFORE_TOKENS)
    delays: list[float] = []
    early = 0
    names: set[str] = set()
    for server in range(SERVERS):
        counts = np.concatenate([good[server, : ends[server]], bad[server]])[None]
        found = first_alarms(guard, counts, BLOCK)
        at = int(found.first[0])
        early += int(0 <= at < ends[server])
        delays.append(float((counts[0, ends[server] : at + 1] + 1).sum()) if at >= 0 else float("inf"))
        names.add("pinned" if at >= 0 and at == found.pinned[0] else "low" if at >= 0 else "none")
    within = sum(delay <= BAR_TOKENS for delay in delays) / SERVERS
    seen = sorted(delay for delay in delays if delay != float("inf"))
    return {
        "rates_before": list(before),
        "rates_after": list(after),
        "alarms_before_the_break": early,
        "alarm_within_2000_tokens": within,
        "median_tokens": seen[len(seen) // 2] if seen else None,
        "most_tokens": seen[-1] if len(seen) == SERVERS else None,
        "first_alarm": sorted(names),
    }


def recorded(guard: Guard, folders: list[Path], temperature: int | None) -> dict[str, Any]:
    """Return how far a guard went on the recorded texts of folders, all or those of one temperature."""
    state = guard.start()
    most = {"low": 0.0, "none": 0.0}
    for number, path in enumerate(path for folder in folders for path in sorted(folder.glob("*.jsonl"))):
        trace = read_trace(path)
        requests = trace.origin["requests"]
        for record in served(trace, guard.expectation.positions).records:
            if temperature in (None, requests[record.request]["temperature"]):
                state = guard.observe(state, record.accepted, record.width, 1000 * number + record.request)
                most = {name: max(value, getattr(state, name)) for name, value in most.items()}
    return {
        "alarm": state.alarm,
        "verifies": state.verifies,
        "tokens": state.tokens,
        "threshold_nats": guard.threshold,
        "most_nats": most,
    }


def main() -> None:
    """Simulate every case, print it, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, nargs="+", default=[Path(__file__).parent / "traces"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began = time.perf_counter()
    generator = np.random.default_rng(SEED)
    expectation = Expectation.read(tiny.path("tiny-next") / "results.json")
    guard = Guard(expectation)
    groups = dict(expectation.groups)
    good, bad = REPORT
    reported = (good,) * expectation.positions
    report_guard = Guard(Expectation({"report": reported}))
    calm = {name: healthy(guard, [rates], generator) for name, rates in groups.items()}
    calm["mixture of all groups"] = healthy(guard, list(groups.values()), generator)
    calm["report's map at 0.57"] = healthy(report_guard, [reported], generator)
    cases = {"report's map, 0.57 to 0.06": (report_guard, reported, (bad,) * len(reported))}
    for name, rates in groups.items():
        cases[f"{name}, cut by 0.06 / 0.57"] = (guard, rates, scaled(rates, bad / good))
    weakest = min(groups, key=lambda name: groups[name][0])
    for cut in (0.8, 0.7, 0.6, 0.5, 0.3):
        cases[f"{weakest}, cut by {cut}"] = (guard, groups[weakest], scaled(groups[weakest], cut))
    for name, value in (("nothing", 0.0), ("everything", 1.0)):
        cases[f"{weakest}, stuck at {name}"] = (guard, groups[weakest], (value,) * len(reported))
    strongest = max(groups, key=lambda name: groups[name][0])
    heat = strongest.split("/")[0]
    for label, watch in (("whole range", guard), (f"only {heat}", Guard(expectation.only(f"{heat}/")))):
        cases[f"{strongest}, cut by 0.5, {label}"] = (
            watch,
            groups[strongest],
            scaled(groups[strongest], 0.5),
        )
    found = {name: broken(*case, generator) for name, case in cases.items()}
    for name, row in calm.items():
        print(f"healthy  {name}: {row['alarms']} of {SERVERS} alarmed")
    for name, row in found.items():
        print(
            f"broken   {name}: {row['alarm_within_2000_tokens']:.1%} within {BAR_TOKENS} tokens, median "
            f"{row['median_tokens']}, most {row['most_tokens']}, {'/'.join(row['first_alarm'])}"
        )
    own = Expectation.read(tiny.path("tiny-27b") / "results.json")
    real = {
        f"{label}, margin {margin}": recorded(Guard(watched, margin=margin), arguments.traces, temperature)
        for margin in (0.1, 0.3)
        for label, watched, temperature in (
            ("all texts", own, None),
            ("temperature 0", own.only("temperature_0/"), 0),
            ("temperature 1", own.only("temperature_1/"), 1),
        )
    }
    for name, row in real.items():
        print(f"recorded {name}: {row['alarm']} after {row['tokens']} tokens, {row['most_nats']}")
    wrong = [row for name, row in found.items() if "0.06" in name]
    reached = sum(row["alarms"] for row in calm.values()) == 0 and all(
        row["alarm_within_2000_tokens"] == 1.0 for row in wrong
    )
    print("bar reached:", reached)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "what": "alarms of penny_spec.guard by simulation",
            "command": "python packages/penny-spec/benchmarks/guard_alarms.py --out FILE [--traces FOLDER ...]",
            "expectation_of": "tiny-next",
            "versions": {
                "penny_spec": penny_spec.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "seed": SEED,
            "seconds": round(time.perf_counter() - began, 1),
            "groups": {name: list(rates) for name, rates in groups.items()},
            "false_alarm": guard.false_alarm,
            "horizon": guard.horizon,
            "threshold_nats": guard.threshold,
            "cut": guard.cut,
            "margin": guard.margin,
            "bar_reached": reached,
            "healthy": calm,
            "broken": found,
            "recorded": real,
            "recorded_folders": len(arguments.traces),
        }
        arguments.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if reached else 1)


def scaled(rates: Rates, factor: float) -> Rates:
    """Return rates times a factor."""
    return tuple(rate * factor for rate in rates)


if __name__ == "__main__":
    main()
