"""Settings that contradict, and the plan of the pools."""

from __future__ import annotations

from collections.abc import Iterable

from penny_server.doctor.base import Case, Check, Finding, fail, gib, ok, warn
from penny_server.errors import ExitCode
from penny_server.plan import Plan

TOLERANCE = 1.03
"""The planner is checked to 3 % of published pools; more than that above what fits is refused."""
CHUNK = 4096
"""Tokens of a prefill chunk where none are set; a recurrent state is kept at the end of each."""


def _settings(case: Case) -> Iterable[Finding]:
    error = case.refusals.get("settings.resolve")
    if error is not None:
        yield fail(error.message, error.hint or "Correct that setting.")
    elif case.launch is not None:
        where = "a CPU" if case.launch.device == "cpu" else "a GPU"
        yield ok(f"{case.launch.profile} resolves for {where}: {len(case.launch.settings)} SGLang arguments.")


def _plan_settings(case: Case) -> Iterable[Finding]:
    error = case.refusals.get("plan.settings")
    if error is not None and error.exit_code == ExitCode.CHECKPOINT:
        yield warn(f"There is no plan: {error.message}", "Put the checkpoint right (see model.checkpoint).")
    elif error is not None:
        yield fail(error.message, error.hint or "Correct that setting.")
    elif case.plan is not None:
        yield ok(f"The plan is for {case.plan.machine.name}.")
    else:
        yield warn(
            "Without a GPU there is no plan of its memory.", "Plan for a GPU by name with `penny plan`."
        )


def _pool(case: Case) -> Iterable[Finding]:
    plan = case.plan
    if plan is None:
        return
    pool, settings = plan.pool, plan.settings
    best = next((lever.change for lever in plan.levers), "")
    if pool.budget <= 0:
        yield fail(
            f"{gib(-pool.budget)} are missing for weights, states and any KV pool at mem_fraction_static "
            f"{plan.fraction:.3g}.",
            _raise_fraction(plan, best),
        )
    elif settings.max_tokens is not None and settings.max_tokens > pool.fits * TOLERANCE:
        yield fail(
            f"max_total_tokens asks for {settings.max_tokens:,} tokens, and about {pool.fits:,} fit.",
            f"Ask for less: --set max_total_tokens={pool.fits // settings.page * settings.page}",
        )
    elif not plan.fits:
        yield warn(
            f"A pool of {pool.tokens:,} tokens holds no request of the whole context of {plan.need.context:,}.",
            f"More fits with {best}, or set a shorter context_length."
            if best
            else "Set a shorter context_length.",
        )
    else:
        yield ok(
            f"A pool of {pool.tokens:,} tokens and {pool.slots} recurrent slots, {gib(plan.free)} left free."
        )


def _raise_fraction(plan: Plan, best: str) -> str:
    needed = 1 - (plan.pool.before * (1 - plan.fraction) + plan.pool.budget) / plan.pool.before
    if needed < 0.99:
        return f"Raise mem_fraction_static above {needed:.2f}."
    return f"Take a larger GPU or a smaller checkpoint{f'; {best} helps' if best else ''}."


def _requests(case: Case) -> Iterable[Finding]:
    plan = case.plan
    if plan is None or not plan.settings.requests:
        return
    asked, able = plan.settings.requests, plan.pool.requests
    if plan.pool.budget > 0 and able < asked:
        yield fail(
            f"max_running_requests is {asked}, and the pools serve {able} at once.",
            f"Set max_running_requests to {max(able, 1)}, or max_mamba_cache_size to {asked * plan.pool.per_request}.",
        )
    elif able >= asked:
        yield ok(f"{asked} requests at once.")


def coverage(states: int, every: int, tokens: int) -> float:
    """The share of ``tokens`` of host KV that ``states`` can make usable, with one kept for ``every`` tokens.

    Once the last state of a prefix is gone, its KV cannot be used (sglang #39436).
    """
    return states * every / tokens


def _states(case: Case) -> Iterable[Finding]:
    plan = case.plan
    if plan is None or not plan.settings.hicache or not plan.host.tier_tokens:
        return
    host, every = plan.host, plan.settings.chunk or CHUNK
    share = coverage(host.tier_slots, every, host.tier_tokens)
    text = (
        f"The host tier holds {host.tier_tokens:,} tokens and {host.tier_slots} recurrent states, one for each prefill "
        f"chunk of {every:,}"
    )
    if share < 1:
        page, pool = plan.settings.page, plan.pool
        slots, tokens = -(-pool.tokens // every), pool.slots * every // page * page
        yield warn(
            f"{text}: enough for {share:.0%} of that KV when prompts are long; the rest is dead memory.",
            "The tier is split as the device's pools are: as far as your contexts allow, raise max_mamba_cache_size "
            f"({slots} for all of it) or lower max_total_tokens ({tokens}).",
        )
    else:
        yield ok(f"{text}.")


SETTINGS = (Check("settings.resolve", "no settings that contradict each other", _settings),)
CHECKS = (
    Check("plan.settings", "settings that a plan can be made of", _plan_settings, "launch"),
    Check("plan.pool", "weights and the pool asked for fit into the GPU", _pool, "launch"),
    Check("plan.requests", "the pools serve as many requests as asked for", _requests, "launch"),
    Check("plan.states", "recurrent states on the host for the KV there", _states, "launch"),
)
