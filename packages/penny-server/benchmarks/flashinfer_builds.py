"""Builds FlashInfer's modules before a server needs them, and says which are complete.

    python flashinfer_builds.py build topk sampling            # blocks; run it in the background at the start
    python flashinfer_builds.py check topk sampling            # exit code 1 while one of them is not complete
    python flashinfer_builds.py keep FOLDER topk sampling      # copies the finished libraries to FOLDER
    python flashinfer_builds.py use FOLDER                     # a FlashInfer elsewhere loads them and builds nothing

FlashInfer builds a module with nvcc when it is first asked for, while its caller waits: for a DFlash2 draft ``topk``
(its selector takes candidates with it, before the draft's graphs are captured) and ``sampling`` (SGLang rehearses the
sampled verification after the graphs). ``xqa`` are the attention modules of stock's fixed-width verification, one for
each ``--widths``, ``--kv`` and ``--pages``.

The cache is FLASHINFER_WORKSPACE_BASE/.cache/flashinfer. A build that was killed goes on with the files that are
missing; other processes wait for a running one. Without a GPU name the architecture: FLASHINFER_CUDA_ARCH_LIST=9.0a.
``keep`` and ``use`` need the same FlashInfer version and CUDA 13 on both machines, and any Python: the libraries use
none of its symbols.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

GROUPS = {"27b": 6, "flash-next": 12}
"""Query heads for each key head."""
HEAD_DIM = 256
USED = ("cuTensorMapEncodeTiled", "cuGetErrorString", "cuGetErrorName")
"""What the modules call of the driver."""
KV_TYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def specs(args: argparse.Namespace) -> Iterator[Any]:
    """FlashInfer's build specifications of the modules asked for."""
    from flashinfer.jit.sampling import gen_sampling_module
    from flashinfer.jit.topk import gen_topk_module
    from flashinfer.jit.xqa import gen_xqa_module

    for name in args.modules:
        if name == "topk":
            yield gen_topk_module()
        elif name == "sampling":
            yield gen_sampling_module()
        else:
            bf16 = torch.bfloat16
            for kv in args.kv:
                for page in args.pages:
                    for width in args.widths:
                        group = GROUPS[args.shape]
                        yield gen_xqa_module(bf16, KV_TYPES[kv], page, HEAD_DIM, group, False, bf16, width)


def complete(spec: Any) -> bool:
    """Whether the library is there and nothing of it would be built again."""
    if spec.is_aot:
        return True
    if not (spec.jit_library_path.exists() and spec.ninja_path.exists()):
        return False
    dry = ["ninja", "-n", "-C", str(spec.build_dir), "-f", str(spec.ninja_path)]
    return "no work to do" in subprocess.run(dry, capture_output=True, text=True, check=False).stdout


def complete_cuda() -> None:
    """Lends the compiler what FlashInfer's builds use and small installations of CUDA lack, through its environment.

    Every module is linked with ``-lcuda``: the machine's driver, or a stand-in of its name where there is none (what is
    loaded at run time is the driver that is there then). ``curand.h`` is taken from the Python package of cuRAND.
    """
    from flashinfer.jit import env
    from flashinfer.jit.cpp_ext import get_cuda_path

    folder = Path(env.FLASHINFER_BASE_DIR) / "lent"
    folder.mkdir(parents=True, exist_ok=True)
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    places = [Path(line.split("=> ")[1]) for line in known.splitlines() if "libcuda.so.1 " in line]
    searched = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/local/nvidia/lib64"]
    places += [Path(place) / "libcuda.so.1" for place in searched if place]
    real = next((place for place in places if place.exists()), None)
    if real:
        link(real, folder / "libcuda.so")
    else:
        source = "".join(f"int {name}(void) {{ return 100; }}\n" for name in USED)
        part = folder / f"libcuda.{os.getpid()}"
        command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(part), "-x", "c", "-"]
        subprocess.run(command, input=source, text=True, check=True)
        part.replace(folder / "libcuda.so")
    # Only these headers: the others of that package belong to another CUDA than the compiler.
    for place in [] if (Path(get_cuda_path()) / "include" / "curand.h").exists() else sys.path:
        for header in Path(place).glob("nvidia/*/include/curand*.h"):
            link(header, folder / header.name)
    for variable in ("LIBRARY_PATH", "CPATH"):
        os.environ[variable] = ":".join(filter(None, [os.environ.get(variable, ""), str(folder)]))


def link(target: Path, name: Path) -> None:
    """Makes ``name`` a link to ``target``, also while another build uses it."""
    part = name.with_name(f"{name.name}.{os.getpid()}")
    part.symlink_to(target.resolve())
    part.replace(name)


def same_build(spec: Any) -> str:
    """A key that is equal for modules of the same sources and flags: XQA's differ by width only up to 5."""
    return json.dumps([[str(path) for path in spec.sources], spec.extra_cuda_cflags])


def build(wanted: list[Any], jobs: int, place: bool) -> list[dict[str, Any]]:
    """Builds each set of equal modules once, ``jobs`` at a time, and copies the library for the others of its set."""
    complete_cuda()
    sets: dict[str, list[Any]] = {}
    for spec in wanted:
        sets.setdefault(same_build(spec), []).append(spec)

    def one(group: list[Any]) -> list[dict[str, Any]]:
        begun = time.monotonic()
        first, rest = group[0], group[1:]
        row: dict[str, Any] = {"module": first.name, "complete": True}
        if not complete(first):
            try:
                first.build(need_lock=True)
            except RuntimeError as error:
                row |= {"complete": False, "error": str(error)[-2000:]}
        row["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps(row), flush=True)
        copies = []
        if row["complete"]:
            library = first.get_library_path()
            if place and not first.is_aot:
                put(library, first.name)
            for spec in rest:
                if not complete(spec):
                    put(library, spec.name)
                copies.append({"module": spec.name, "complete": True, "copy_of": first.name})
        return [row, *copies]

    with ThreadPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(one, sets.values()) for row in rows]


def put(library: Path, name: str) -> None:
    """Places a library where this FlashInfer looks before it builds."""
    from flashinfer.jit import env

    target = Path(env.FLASHINFER_AOT_DIR) / name / f"{name}.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    shutil.copyfile(library, part)
    part.replace(target)


def main() -> int:
    """Runs one of the four commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "check", "keep"):
        command = commands.add_parser(name)
        if name == "keep":
            command.add_argument("folder", type=Path)
        command.add_argument("modules", nargs="+", choices=("topk", "sampling", "xqa"))
        command.add_argument("--shape", choices=tuple(GROUPS), default="27b", help="xqa: heads of this model")
        command.add_argument("--widths", type=int, nargs="+", default=list(range(2, 17)), help="xqa")
        command.add_argument("--kv", choices=tuple(KV_TYPES), nargs="+", default=list(KV_TYPES), help="xqa")
        command.add_argument("--pages", type=int, nargs="+", default=[64], help="xqa: tokens of a page")
        if name == "build":
            command.add_argument("--jobs", type=int, default=4, help="modules that are built at once")
            command.add_argument(
                "--place", action="store_true", help="as ``use`` does, whatever flags come later"
            )
    commands.add_parser("use").add_argument("folder", type=Path)
    args = parser.parse_args()
    if args.command == "use":
        found = sorted(args.folder.glob("*.so"))
        for library in found:
            put(library, library.stem)
        print(json.dumps({"used": [library.stem for library in found]}))
        return 0 if found else 1
    wanted = list(specs(args))
    if args.command == "build":
        return 0 if all(row["complete"] for row in build(wanted, args.jobs, args.place)) else 1
    state = {spec.name: complete(spec) for spec in wanted}
    if args.command == "keep":
        args.folder.mkdir(parents=True, exist_ok=True)
        for spec in wanted:
            if state[spec.name]:
                shutil.copyfile(spec.get_library_path(), args.folder / f"{spec.name}.so")
    print(json.dumps(state, indent=1))
    return 0 if all(state.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
