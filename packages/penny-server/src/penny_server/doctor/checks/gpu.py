"""The GPUs, their driver and the slots they sit in."""

from __future__ import annotations

from collections.abc import Iterable

from penny_server.doctor.base import GIB, MIB, Case, Check, Finding, fail, gib, ok, warn
from penny_server.doctor.facts import GpuFacts

WARM_UP = 256 * MIB
"""What a driver holds on a GPU that nobody uses, with room to spare."""


def _used(case: Case) -> tuple[GpuFacts, ...]:
    return case.facts.gpus[: case.ranks] if case.cuda else case.facts.gpus


def _present(case: Case) -> Iterable[Finding]:
    gpus, driver, needed = case.facts.gpus, case.facts.driver, case.ranks
    if gpus and len(gpus) >= needed:
        names = ", ".join(f"{gpu.name} ({gib(gpu.total)})" for gpu in gpus)
        yield ok(f"{names}." if needed or case.launch is None else f"{names}, not needed by this profile.")
        return
    if not needed:
        yield ok("No NVIDIA GPU; profiles for a CPU run.")
        return
    hidden = case.facts.environ.get("CUDA_VISIBLE_DEVICES")
    if not driver.error and hidden is not None:
        yield fail(
            f"{len(gpus)} of {needed} GPUs are visible with CUDA_VISIBLE_DEVICES={hidden!r}.",
            "Unset CUDA_VISIBLE_DEVICES, or list as many GPUs in it as tp_size says.",
        )
    elif gpus:
        yield fail(
            f"tp_size is {needed}, and this machine has {len(gpus)} GPU{'s' * (len(gpus) > 1)}.",
            f"Start with --set tp_size={len(gpus)}.",
        )
    else:
        yield fail(
            f"No NVIDIA GPU was found{f' ({driver.error})' if driver.error else ''}.",
            "Install NVIDIA's driver; in a container, start it with --gpus all.",
        )


def _driver(case: Case) -> Iterable[Finding]:
    driver, built = case.facts.driver, case.facts.installed.torch_cuda
    if driver.error:
        if "version" in driver.error.lower():
            yield fail(
                f"The driver's library and kernel module differ ({driver.error}).",
                "Restart the machine, or reload the driver's kernel modules.",
            )
        return
    text = f"driver {driver.version} runs up to CUDA {driver.cuda[0]}.{driver.cuda[1]}"
    if not built:
        yield fail(
            f"The installed torch is built without CUDA; {text}.",
            "Install the CUDA build of torch that sglang requires.",
        )
    elif driver.cuda[0] < int(built.partition(".")[0]):
        yield fail(
            f"torch is built for CUDA {built}, and {text}.",
            f"Install a driver for CUDA {built.partition('.')[0]} or newer.",
        )
    else:
        yield ok(f"{text[0].upper()}{text[1:]}; torch is built for CUDA {built}.")


def _capability(case: Case) -> Iterable[Finding]:
    wanted = case.profile.section("cuda").compute_capability if case.profile else ()
    for gpu in _used(case):
        if wanted and gpu.capability not in wanted:
            yield fail(
                f"{gpu.name} has compute capability {gpu.capability}; this profile is made for "
                f"{' or '.join(wanted)}.",
                "Use a GPU of that kind, or a profile that `penny profiles` marks as running here.",
            )
        else:
            yield ok(f"{gpu.name} has compute capability {gpu.capability}.")


def _mode(case: Case) -> Iterable[Finding]:
    for gpu in _used(case):
        if gpu.mig:
            yield fail(
                f"{gpu.name} is split by MIG, so that no process sees it whole.",
                "Turn MIG off: nvidia-smi -mig 0",
            )
        elif gpu.compute_mode == "prohibited":
            yield fail(
                f"The compute mode of {gpu.name} is prohibited, so that CUDA refuses to use it.",
                "Set it back: nvidia-smi -c 0",
            )
        else:
            yield ok(f"{gpu.name} may be used: compute mode {gpu.compute_mode}, MIG off.")


def _link(case: Case) -> Iterable[Finding]:
    for gpu in _used(case):
        lanes, most = gpu.link_width, gpu.link_width_most
        generation, best = gpu.link_generation, gpu.link_generation_most
        if lanes is None or generation is None:
            continue
        text = f"{gpu.name} is on PCIe {generation} x{lanes}"
        if (most and lanes < most) or (best and generation < best):
            yield warn(
                f"{text} and can do PCIe {best or generation} x{most or lanes}: restores from host memory and loading "
                "take longer.",
                "Put it in a slot of that width, and look at the slot's settings in the firmware.",
            )
        else:
            yield ok(f"{text}.")


def _power(case: Case) -> Iterable[Finding]:
    for gpu in _used(case):
        clock = f", memory at up to {gpu.memory_clock_most:,} MHz" if gpu.memory_clock_most else ""
        limit, default = gpu.power_limit, gpu.power_default
        if gpu.slowdowns:
            yield warn(
                f"The driver slows {gpu.name} down: {' and '.join(gpu.slowdowns)}.",
                "See to its cooling and power supply.",
            )
        if limit and default and limit < default - 1:
            yield warn(
                f"{gpu.name} may take {limit:.0f} of {default:.0f} W{clock}: prefill is slower, decoding hardly.",
                f"Raise it, if that was not meant: nvidia-smi -pl {default:.0f}",
            )
        elif limit and not gpu.slowdowns:
            yield ok(f"{gpu.name} may take {limit:.0f} W{clock}.")


def _clock(case: Case) -> Iterable[Finding]:
    for gpu in _used(case):
        now, most = gpu.memory_clock, gpu.memory_clock_most
        if now and most and now < 0.95 * most:
            yield warn(
                f"The memory clock of {gpu.name} is held at {now:,} of {most:,} MHz, which slows decoding as much.",
                "Set it back: nvidia-smi -rac; nvidia-smi -rmc",
            )
        elif now and most:
            yield ok(f"The memory clock of {gpu.name} may reach {now:,} MHz.")


def _memory(case: Case) -> Iterable[Finding]:
    wanted = case.profile.section("cuda").vram_gib if case.profile else 0
    for gpu in _used(case):
        if gpu.total and gpu.total < wanted * GIB:
            yield fail(
                f"{gpu.name} has {gib(gpu.total)}; this profile needs {wanted:g} GiB.",
                "Use a larger GPU, or a smaller profile (see `penny plan --vram`).",
            )
        elif gpu.total:
            yield ok(f"{gpu.name} has {gib(gpu.total)}.")


def _others(case: Case) -> Iterable[Finding]:
    for gpu in _used(case):
        used = gpu.total - gpu.free
        if used <= WARM_UP:
            yield ok(f"Nobody else uses {gpu.name}.")
            continue
        who = ", ".join(
            f"{p.name} ({p.pid}{'' if p.bytes is None else ', ' + gib(p.bytes)})" for p in gpu.processes
        )
        found = f"{gib(used)} of {gpu.name} are in use{f' by {who}' if who else ''}"
        plan, now = case.plan, case.plan_now
        lost = plan.pool.tokens - now.pool.tokens if plan and now else 0
        if plan and now and lost > 0 and (now.pool.budget <= 0 or case.setting("max_total_tokens")):
            yield fail(
                f"{found}: {now.pool.tokens:,} of {plan.pool.tokens:,} tokens of the pool are left.",
                f"End those processes, or ask for a smaller pool: --set max_total_tokens={now.pool.tokens}"
                if now.pool.tokens
                else "End those processes.",
            )
        else:
            yield warn(
                f"{found}{f'; the pool loses {lost:,} tokens' if lost > 0 else ''}.",
                "End those processes, or put the desktop on another GPU.",
            )


CHECKS = (
    Check("gpu.present", "as many NVIDIA GPUs as tp_size asks for are visible", _present),
    Check("gpu.driver", "the driver answers, and runs the CUDA that torch is built for", _driver, "cuda"),
    Check("gpu.capability", "the GPU is of the kind that the profile is made for", _capability, "cuda"),
    Check("gpu.mode", "no MIG, and the compute mode lets processes in", _mode, "cuda"),
    Check("gpu.link", "PCIe lanes and generation are what the GPU can do", _link),
    Check("gpu.power", "the power limit is the card's own, and nothing slows it down", _power),
    Check("gpu.clock", "the memory clock is not held down", _clock),
    Check("gpu.memory", "the GPU is as large as the profile needs", _memory, "cuda"),
    Check("gpu.others", "no other process holds memory that the plan needs", _others),
)
