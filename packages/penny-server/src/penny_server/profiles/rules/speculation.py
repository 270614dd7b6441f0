"""Speculation settings that stock would change in silence or meet with an exception."""

from __future__ import annotations

from penny_server.profiles.rules.base import Case, Rule, refuse
from penny_server.profiles.speculation import CHAINED, STEPS, TOKENS, TOPK


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


def _single_chain(case: Case) -> None:
    algorithm = str(case.get("speculative_algorithm", "")).upper()
    backends = {case.get("attention_backend"), case.get("decode_attention_backend")}
    if algorithm in CHAINED and case.get(TOPK, 1) > 1 and "trtllm_mha" in backends:
        refuse(
            f"{TOPK} is {case.get(TOPK)}, and the attention back end trtllm_mha verifies only chains: top-k 1."
        )


RULES: tuple[Rule, ...] = (_no_algorithm, _block_drafter, _adaptive, _single_chain)
