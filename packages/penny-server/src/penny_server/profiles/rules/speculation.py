"""Speculation settings that stock would change in silence or meet with an exception."""

from __future__ import annotations

from pathlib import Path

from penny_server.profiles.rules.base import Case, Rule, refuse
from penny_server.profiles.speculation import CHAINED, STEPS, TOKENS, TOPK, slots_of


def _no_algorithm(case: Case) -> None:
    if case.get("speculative_algorithm"):
        return
    given = [key for key, value in case.settings.items() if key.startswith("speculative_") and value]
    if given:
        refuse(
            f"{given[0]} is set and speculative_algorithm is not, so nothing would be drafted.",
            f"Set speculative_algorithm to NEXTN or DFLASH, or take the setting away: --set {given[0]}=",
        )


def _block_drafter(case: Case) -> None:
    if case.get("speculative_algorithm") != "DFLASH":
        return
    for key in (STEPS, TOPK):
        if case.get(key, 1) != 1:
            refuse(
                f"{key} is {case.get(key)}, and DFLASH drafts a block in one step: only 1 fits.",
                f"Set {TOKENS}.",
            )
    tokens = case.number(TOKENS)
    block = case.number("speculative_dflash_block_size")
    window = case.number("speculative_draft_window_size")
    if tokens is not None and tokens < 2:
        refuse(f"{TOKENS} is {tokens}, and DFLASH needs at least 2: the verified token and one draft.")
    if block is not None and tokens is not None and block != tokens:
        refuse(
            f"speculative_dflash_block_size is {block} and {TOKENS} is {tokens}; give one of them, or both alike."
        )
    if window is not None and tokens is not None and window < tokens:
        refuse(f"speculative_draft_window_size is {window}, less than the {tokens} draft tokens of a block.")
    if case.get("speculative_token_map"):
        refuse("speculative_token_map goes with NEXTN and EAGLE, and speculative_algorithm is DFLASH.")


def _adaptive(case: Case) -> None:
    if case.get("speculative_adaptive_config") and not case.get("speculative_adaptive"):
        refuse(
            "speculative_adaptive_config is set and speculative_adaptive is not.",
            "Set speculative_adaptive=true.",
        )
    asked = case.options.get("adaptive")
    if asked is None:
        return
    algorithm = str(case.get("speculative_algorithm", "")).upper()
    if algorithm not in (*CHAINED, "DFLASH") or case.get(TOPK, 1) > 1:
        refuse(
            f"adaptive is set, and speculative_algorithm is {algorithm or 'not set'} with {TOPK} {case.get(TOPK, 1)}: "
            "widths change for NEXTN, EAGLE and DFLASH with top-k 1."
        )
    if case.get("speculative_adaptive_config"):
        refuse("adaptive and speculative_adaptive_config are both set; keep one of them.")
    launch = (case.number(TOKENS) or 0) - 1
    try:
        widths = slots_of(asked).widths()
    except (ValueError, TypeError) as error:
        refuse(f"adaptive is {asked}: {error}", "For example: --set adaptive='{1 = [1, 3], 4 = [1]}'")
    if widths[-1] != launch:
        refuse(
            f"adaptive goes up to {widths[-1]} draft tokens, and {TOKENS} is {launch + 1}: the pools and graphs are "
            "made for that width, so the widest must be one less.",
            f"Set {TOKENS}={widths[-1] + 1}, or change adaptive.",
        )


def _calibrated(case: Case) -> None:
    given = case.options.get("acceptance")
    if given is None:
        return
    from penny_spec.guard import Expectation

    try:
        Expectation.read(Path(given))
    except (OSError, ValueError) as error:
        refuse(f"The acceptance rates of {given} cannot be used: {error}")


def _single_chain(case: Case) -> None:
    """Sparse attention takes nothing else, and neither do exact penalties, XQA and sampling on a CPU."""
    topk = case.number(TOPK) or 1
    if str(case.get("speculative_algorithm", "")).upper() in CHAINED and topk > 1:
        refuse(
            f"{TOPK} is {topk}, which makes the draft a tree, and only chains are verified here: top-k 1.",
            f"Set {TOPK}=1; more drafts are more {STEPS}.",
        )


RULES: tuple[Rule, ...] = (_no_algorithm, _block_drafter, _adaptive, _calibrated, _single_chain)
