"""Reasoning cases: every answer of the rubric computed anew by another way, and the judge."""

import itertools
import json
import re
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from penny_bench.cases.reasoning import (
    CASES,
    POINTS,
    Item,
    Key,
    Question,
    last_object,
    right,
    rubric_checks,
)


def rubric(number: str, turn: int = 0) -> dict[str, Any]:
    """The expected values of a case."""
    case = next(case for case in CASES if case.name.startswith(number))
    return {key.name: key.value for item in case.questions[turn].items for key in item.keys}


def table(number: str) -> list[list[str]]:
    """Cells of the Markdown table of a case, without its head."""
    words = next(case for case in CASES if case.name.startswith(number)).questions[0].words
    rows = [line.strip("|").split("|") for line in words.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


# ---- the rubric as a whole


def test_the_rubric_has_100_points_in_nine_requests() -> None:
    questions = [question for case in CASES for question in case.questions]
    items = [item for question in questions for item in question.items]
    assert (len(CASES), len(questions), len(items)) == (8, 9, 25)
    assert len(items) * POINTS == 100
    assert sum(bool(item.guide) for item in items) == 9
    for item in items:
        assert bool(item.keys) != bool(item.guide)
        assert not item.guide or re.match(r"4: .* 2: .* 0: ", item.guide)
    for question in questions:
        names = [item.name for item in question.items]
        assert len(set(names)) == len(names)
        assert all(f"- {key.name}: " in question.prompt for item in question.items for key in item.keys)


# ---- C1: packets sent along the path


def test_c1_path_mtu() -> None:
    hops = [("A", 9000), ("R1", min(1500, 1492) - 20 - 8), ("R2", 1400), ("R3", 1500)]
    assert 1400 + 80 <= 1500  # the second tunnel's packets fit their link

    def send(size: int) -> tuple[str, int | None]:
        """Where a packet is dropped, and what its sender is told."""
        for router, mtu in hops:
            if size > mtu:
                return router, mtu if router == "R1" else None
        return "B", None

    believed = 9000
    while (told := send(believed)[1]) is not None:
        believed = told
    arriving = [size for size in range(1280, 9001) if send(size)[0] == "B"]
    vanishing = [size for size in range(1280, believed + 1) if send(size) == ("R2", None)]
    want = rubric("C1")
    assert (want["believed"], want["real"]) == (believed, max(arriving))
    assert (want["smallest"], want["largest"]) == (min(vanishing), max(vanishing))
    mss = next(n for n in range(9000, 0, -1) if send(n + 40 + 20)[0] == "B")
    assert (want["mss"], want["data"]) == (mss, mss - 12)
    left, segments = 1_000_000, 0
    while left > 0:
        left, segments = left - (mss - 12), segments + 1
    assert want["segments"] == segments


# ---- C2: every offset of the clock that the messages allow


def test_c2_event_order() -> None:
    def events(ahead: float) -> dict[str, float]:
        right = {"p1": 3.0, "p2": 7.5, "p3": 12.0, "q1": 6.5 - 2.4, "q2": 11.5 - 2.4}
        return right | {"r1": 5.0 - ahead, "r3": 9.0 - ahead, "r2": 10.2 - ahead}

    allowed = [
        ahead / 1000
        for ahead in range(-10_000, 10_001)
        if (t := events(ahead / 1000))["r1"] - t["p1"] >= 0.2 - 1e-9 and t["q2"] - t["r2"] >= 0.2 - 1e-9
    ]
    want = rubric("C2")
    assert (want["least"], want["most"]) == pytest.approx((min(allowed), max(allowed)))
    names = list(events(0))
    before = {
        (a, b) for a in names for b in names if a != b and all(events(o)[a] < events(o)[b] for o in allowed)
    }
    place = {name: n for n, group in enumerate(want["order"]) for name in group}
    assert sorted(place) == sorted(names)
    for a, b in itertools.permutations(names, 2):
        assert ((a, b) in before) == (place[a] < place[b])


# ---- C3: every plan, and an independent solver


def test_c3_production() -> None:
    rows = {row[0]: [int(cell) for cell in row[1:] if cell] for row in table("C3")}
    profit, limits = next(iter(rows.values())), list(rows.values())[1:]
    assert len(limits) == 3
    plans = {}
    for plan in itertools.product(range(60), repeat=3):
        fits = all(np.dot(plan, limit[:3]) <= limit[3] for limit in limits)
        if fits and (plan[2] == 0 or plan[2] >= 4):
            plans[plan] = int(np.dot(plan, profit)) - (60 if plan[2] else 0)
    best, second = sorted(plans.values())[:-3:-1]
    want = rubric("C3")
    assert [plan for plan, value in plans.items() if value == best] == [
        (want["stools"], want["benches"], want["shelves"])
    ]
    assert (want["profit"], want["lead"]) == (best, best - second)
    paint = limits[2]
    assert want["paint_left"] == paint[3] - np.dot(
        [want["stools"], want["benches"], want["shelves"]], paint[:3]
    )
    # The same with a switch variable for the jig, by branch and bound: shelves - 4 jig >= 0, 60 jig - shelves >= 0.
    limits_of = LinearConstraint(
        [[*limit[:3], 0] for limit in limits] + [[0, 0, 1, -4], [0, 0, -1, 60]],
        [-np.inf] * 3 + [0, 0],
        [limit[3] for limit in limits] + [np.inf, np.inf],
    )
    solved = milp(
        [-p for p in profit] + [60],
        integrality=[1] * 4,
        bounds=Bounds(0, [60, 60, 60, 1]),
        constraints=limits_of,
    )
    assert -solved.fun == pytest.approx(best)


# ---- C4: all 720 sequences


def test_c4_schedule() -> None:
    orders = {row[0]: [int(cell) for cell in row[1:]] for row in table("C4")}

    def ends(sequence: tuple[str, ...]) -> dict[str, int]:
        now, found = 0, {}
        for name in sequence:
            ready, hours, _, _ = orders[name]
            now = max(now, ready) + hours
            found[name] = now
        return found

    def cost(sequence: tuple[str, ...]) -> int:
        return sum(orders[name][3] * max(0, end - orders[name][2]) for name, end in ends(sequence).items())

    costs = {sequence: cost(sequence) for sequence in itertools.permutations(orders)}
    best = min(costs.values())
    want = rubric("C4")
    assert [sequence for sequence, value in costs.items() if value == best] == [tuple(want["sequence"])]
    assert want["cost"] == best
    finished = ends(tuple(want["sequence"]))
    assert want["end"] == max(finished.values())
    assert set(want["late"]) == {name for name, end in finished.items() if end > orders[name][2]}
    by_due = tuple(sorted(orders, key=lambda name: (orders[name][2], name)))
    assert want["cost_by_due_time"] == costs[by_due]


# ---- C5: the rules, played


def test_c5_transfers() -> None:
    words = next(case for case in CASES if case.name.startswith("C5")).questions[0].words
    read = re.findall(r"(\d+): minute (\d+), (k\d), (\w) to (\w), (\d+)", words)
    assert [int(row[0]) for row in read] == list(range(1, 16))
    held = {"A": 100, "B": 50, "C": 0}
    known: dict[str, tuple[int, tuple[str, str, int]]] = {}
    kinds: dict[str, list[int]] = {"moved": [], "refused": [], "repeats": [], "conflicts": [], "invalid": []}
    for number, minute, key, source, target, amount in read:
        what = (source, target, int(amount))
        if key in known and int(minute) - known[key][0] >= 60:
            del known[key]
        if source == target:
            kind = "invalid"
        elif key in known:
            kind = "repeats" if known[key][1] == what else "conflicts"
        else:
            known[key] = (int(minute), what)
            kind = "moved" if held[source] >= int(amount) else "refused"
        if kind == "moved":
            held[source] -= int(amount)
            held[target] += int(amount)
        kinds[kind].append(int(number))
    want = rubric("C5")
    assert held == {name: want[name] for name in "ABC"}
    assert sum(held.values()) == 150
    for kind in ("moved", "refused", "repeats", "conflicts"):
        assert want[kind] == kinds[kind]


# ---- C6: the gates at a moment


def test_c6_release() -> None:
    east = timezone(timedelta(hours=1))
    restarted = datetime(2031, 3, 7, 4, 30, tzinfo=east)
    waiver = datetime(2031, 3, 10, 4, 0, tzinfo=east)

    def failing(now: datetime, fault_125: bool) -> set[str]:
        nights = [238, 251, 247, 262, 244]
        second = 2 + (now >= waiver)
        holds = {
            "G1": 0.40 < 0.5,
            "G2": statistics.median(nights) <= 250 and max(nights) <= 300,
            "G3": not fault_125 and second <= 2,
            "G4": now - restarted >= timedelta(hours=72),
            "G5": {75: 12, 76: 12, 77: 13}[75] == 12,
        }
        return {gate for gate, held in holds.items() if not held}

    want = rubric("C6")
    decided = datetime(2031, 3, 9, 10, tzinfo=UTC)
    assert set(want["failing"]) == failing(decided, True)
    assert want["decision"] == "hold"
    soaked = restarted + timedelta(hours=72)
    assert datetime.fromisoformat(want["g4_holds"]) == soaked
    assert "G4" in failing(soaked - timedelta(seconds=1), False)
    assert want["could_go_then"] is (failing(soaked, False) == set())
    assert failing(waiver - timedelta(seconds=1), False) == {"G4"}  # and never both in time


# ---- C7: linear programmes over all that may happen


def test_c7_alarms() -> None:
    atoms = list(itertools.product((0, 1), repeat=3))
    known = [
        [1] * 8,
        [a for a, _, _ in atoms],
        [b for _, b, _ in atoms],
        [c for _, _, c in atoms],
        [a * b for a, b, _ in atoms],
    ]

    def bound(event: Callable[[int], bool], sign: int) -> float:
        costs = [sign * float(event(sum(atom))) for atom in atoms]
        return sign * float(linprog(costs, A_eq=known, b_eq=[1, 0.6, 0.55, 0.4, 0.35]).fun)

    want = rubric("C7")
    assert want["two_least"] == pytest.approx(bound(lambda n: n >= 2, 1))
    assert want["two_most"] == pytest.approx(bound(lambda n: n >= 2, -1))
    assert want["one_least"] == pytest.approx(bound(lambda n: n == 1, 1))
    assert want["one_most"] == pytest.approx(bound(lambda n: n == 1, -1))


def test_c7_faults() -> None:
    # Over distributions on a fine grid; the best has two points, 24 and 12 - 9/12, both on the grid.
    grid = np.arange(-60, 84.001, 0.25)
    moments = [np.ones_like(grid), grid, grid**2]
    most = -linprog(-(grid >= 24).astype(float), A_eq=moments, b_eq=[1, 12, 144 + 9]).fun
    want = rubric("C7")["faults_most"]
    assert want == pytest.approx(most, abs=1e-6)
    assert want < 9 / 12**2 < 12 / 24  # better than Chebyshev's and Markov's


# ---- C8: the tank, minute by minute in exact fractions


def test_c8_correction() -> None:
    def full(b_opens: int, c_closes: int) -> tuple[Fraction, Fraction]:
        """Minutes after eight at which the tank is full, and what it holds at eleven."""
        held, minute, at_eleven = Fraction(0), 0, Fraction(0)
        while True:
            rate = Fraction(1, 360)
            rate += Fraction(1, 540) if minute >= b_opens else 0
            rate -= Fraction(1, 720) if 60 <= minute < c_closes else 0
            if minute == 180:
                at_eleven = held
            if held + rate >= 1:
                return minute + (1 - held) / rate, at_eleven
            held, minute = held + rate, minute + 1

    def clock(minutes: Fraction) -> str:
        return f"{datetime(2031, 1, 1, 8) + timedelta(minutes=float(minutes)):%H:%M:%S}"

    filled, at_eleven = full(150, 180)
    want = rubric("C8")
    assert want["full_at"] == clock(filled) == "13:12:00"
    assert want["hours_after_closing"] == pytest.approx(float(filled - 180) / 60)
    assert want["filled_at_closing"] == pytest.approx(float(at_eleven))
    assert rubric("C8", 1) == {"colleague_is_right": False, "full_at": "13:12:00"}
    case = CASES[7]
    # The mistakes that the case speaks of: the drain closed at 10:30, and B not counted before 11:00.
    assert clock(full(150, 150)[0])[:5] in case.history[1]["content"]
    assert clock(full(180, 180)[0])[:5] in case.questions[1].words


# ---- the judge

QUESTION = Question(
    "?",
    (
        Item("sums", (Key("n", 2.5, tolerance=0.1), Key("late", ["A", "b"], "set"))),
        Item(
            "rest", (Key("way", ["x", "y"], "list"), Key("ok", True, "truth"), Key("at", "13:05:00", "time"))
        ),
        Item("words", guide="4: good. 2: fair. 0: bad."),
    ),
)
GOOD = {"n": 2.45, "late": ["B", "a"], "way": ["X", "y"], "ok": True, "at": "13:05"}


def points(reply: str) -> list[tuple[bool | None, float]]:
    return [(check.passed, check.points) for check in rubric_checks("C0", QUESTION, reply)]


def test_points() -> None:
    assert points(f"So:\n```json\n{json.dumps(GOOD)}\n```\nThat is it.") == [(True, 4), (True, 4), (None, 0)]
    half = {**GOOD, "n": 2.7, "way": ["y", "x"], "ok": "false"}
    assert points(json.dumps(half)) == [(False, 2), (False, pytest.approx(4 / 3)), (None, 0)]
    assert points("It is 2.5.") == [(False, 0), (False, 0), (None, 0)]
    assert points(" \n") == [(False, 0), (False, 0), (False, 0)]  # nothing for a person to judge
    details = [check.detail for check in rubric_checks("C0", QUESTION, json.dumps(half))]
    assert details[0] == "n is 2.7, not 2.5."
    assert all(check.of == POINTS for check in rubric_checks("C0", QUESTION, ""))


def test_the_last_object_counts() -> None:
    assert last_object('{"n": 1} and then {"n": {"m": 2}} {') == {"n": {"m": 2}}
    assert last_object('```json\n{"n": 1}\n```\nIn set notation {x} this is {"n": 2}') == {"n": 1}
    assert last_object('```\n{"n": 1}\n```\n```json\n{"n": 2}\n```\n```python\nx = 1\n```') == {"n": 2}
    assert last_object("[1, 2] {oops}") is None


@pytest.mark.parametrize(
    ("form", "value", "yes", "no"),
    [
        ("number", 4, [4, 4.0, "4"], [5, True, None, "four", [4]]),
        ("truth", False, [False, "false", "False"], [True, 0, None, "no way"]),
        ("text", "hold", ["hold", " Hold "], ["go", "on hold", None]),
        ("list", ["C", "B"], [["C", "B"], ["c", " b"]], [["B", "C"], "CB", ["C"], None]),
        ("set", [4, 15], [[15, 4], ["4", "15"]], [[4], [4, 15, 15], "4, 15", None]),
        (
            "groups",
            [["a"], ["b", "c"]],
            [[["a"], ["c", "b"]], ["a", ["b", "c"]]],
            [[["a", "b"], ["c"]], ["a", "b", "c"]],
        ),
        ("time", "13:12:00", ["13:12", "13:12:00"], ["01:12", "13:13", "1 pm", None, ""]),
        (
            "moment",
            "2031-03-10T03:30:00Z",
            ["2031-03-10T03:30Z", "2031-03-10T04:30:00+01:00", "2031-03-10 03:30:00"],
            ["2031-03-10T04:30:00Z", "2031-03-10", "soon", None],
        ),
    ],
)
def test_forms(form: Any, value: Any, yes: list[Any], no: list[Any]) -> None:
    key = Key("k", value, form)
    assert [found for found in yes if not right(key, {"k": found})] == []
    assert [found for found in no if right(key, {"k": found})] == []
    assert not right(key, {})
