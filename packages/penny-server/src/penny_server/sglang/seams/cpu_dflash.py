"""DFlash and DFlash2 on a CPU: stock's gate by device, and three places that only an accelerator takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penny_server.sglang import verdict
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Role, Seam

FEATURE = "cpu-dflash"
HOOK = "sglang.srt.arg_groups.speculative_hook._handle_dflash"
RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner._extend_forward_kwargs"
WORKER = "sglang.srt.speculative.dflash_worker_v2.DFlashWorkerV2.forward_batch_generation"
BACKEND = "sglang.srt.layers.attention.intel_amx_backend.IntelAMXAttnBackend._build_extend_metadata"


CHOICES = "sglang.srt.arg_groups.choices.DRAFT_ATTENTION_BACKEND_CHOICES"
TOPK = "sglang.srt.models.dflash._radix_topk"
REJECT = "sglang.kernels.ops.speculative.reject_sampling.chain_speculative_sampling_triton"
ATTENTION = "sglang.srt.models.dflash.DFlashAttention.__init__"


class _Willing:
    """The platform as it is, but that it says yes to DFLASH, as a platform outside of SGLang's tree may."""

    def __init__(self, platform: Any) -> None:
        self._platform = platform

    def __getattr__(self, name: str) -> Any:
        return getattr(self._platform, name)

    def is_out_of_tree(self) -> bool:
        return True

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm == "DFLASH"

    def supports_speculative_draft_attention_backend(self, algorithm: str, backend: str) -> bool:
        return (algorithm, backend) == ("DFLASH", "intel_amx")


@contextmanager
def _platform(module: Any, platform: Any) -> Iterator[None]:
    kept, module.current_platform = module.current_platform, platform
    try:
        yield
    finally:
        module.current_platform = kept


def _handle_dflash(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    from sglang.srt.arg_groups import speculative_hook

    with _platform(speculative_hook, _Willing(speculative_hook.current_platform)):
        return original(*args, **kwargs)


def _own_dtype(original: Callable[..., Any], runner: Any, batch: Any, *args: Any) -> Any:
    """Stock casts given embeddings to bfloat16, whatever the model's dtype."""
    kwargs = original(runner, batch, *args)
    if batch.input_embeds is not None and batch.replace_embeds is None:
        kwargs["input_embeds"] = batch.input_embeds.to(runner.dtype)
    return kwargs


def _plain_rotary(original: Callable[..., None], attention: Any, *args: Any, **kwargs: Any) -> None:
    """In bfloat16 stock norms and rotates with a Triton kernel; its other dtypes take the plain operations."""
    original(attention, *args, **kwargs)
    attention.use_table_qk_norm_rope = False


def _reject(**given: Any) -> None:
    """Stock's rejection sampling of a chain, by penny-spec."""
    from penny_spec.verify import rejection

    drafts, coins = given["candidates"][:, 1:].long(), verdict.coins_of(given)
    draft, target = given["draft_probs"].float(), given["target_probs"].float()
    verdict.write(given, rejection(drafts, draft, target, coins, validate=False))


def _no_streams() -> None:
    """A CPU has no streams for the allocator to wait for."""
    import torch

    def record_stream(self: torch.Tensor, stream: Any) -> None:
        return None

    torch.Tensor.record_stream = record_stream  # type: ignore[method-assign, assignment]


def _streams_are_ignored() -> bool:
    import torch

    return torch.zeros(1).record_stream(None) is None  # type: ignore[arg-type, func-returns-value]


def _offer_backend() -> None:
    from sglang.srt.arg_groups import choices

    choices.add_draft_attention_backend_choices(["intel_amx"])


def _backend_is_offered() -> bool:
    from sglang.srt.arg_groups import choices

    return "intel_amx" in choices.DRAFT_ATTENTION_BACKEND_CHOICES


def _torch_candidates() -> None:
    """Where FlashInfer can be imported, stock calls its top-k on any device; beside it is the form of PyTorch."""
    from sglang.srt.models import dflash

    dflash._flashinfer_top_k = None


def _candidates_are_found() -> bool:
    import torch
    from sglang.srt.models import dflash

    return bool(dflash._radix_topk(torch.tensor([[1.0, 3.0, 2.0]]), 2)[1].tolist() == [[1, 2]])


def _chain_mask() -> None:
    """A DFlash block is a chain: stock's CPU attention asks how many branches, and its DFlash input does not say."""
    from sglang.srt.speculative.dflash_info import DFlashVerifyInput

    DFlashVerifyInput.tree_topk = 1


def _chain_is_said() -> bool:
    from sglang.srt.speculative.dflash_info import DFlashVerifyInput

    return bool(DFlashVerifyInput.tree_topk == 1)


def _seam(
    name: str,
    target: str,
    digest: str,
    summary: str,
    kind: Kind,
    hook: Any,
    probe: Any = None,
    roles: tuple[Role, ...] = ("scheduler",),
) -> Seam:
    return Seam(
        f"{FEATURE}.{name}",
        FEATURE,
        target,
        digest,
        summary,
        kind,
        hook,
        probe or (lambda: hooked(target)),
        roles,
    )


BOTH: tuple[Role, ...] = ("main", "scheduler")
# fmt: off
SEAMS = (
    _seam("backend", CHOICES, "615aa41fb5e2249c", "offers the CPU attention to drafts",
          "set", _offer_backend, _backend_is_offered, BOTH),
    _seam("top-k", TOPK, "36f02c6d2f2bdf67", "finds candidates with PyTorch",
          "set", _torch_candidates, _candidates_are_found),
    _seam("device", HOOK, "12b1b03eca9f51ca", "lets DFLASH start on a CPU",
          "around", _handle_dflash, roles=BOTH),
    _seam("embeddings", RUNNER, "2fb8dbbf8d795a06", "keeps given embeddings in the model's dtype",
          "around", _own_dtype),
    _seam("rejection", REJECT, "405e6a077e7f13b4", "verifies sampled drafts with penny-spec",
          "replace", _reject),
    _seam("rotary", ATTENTION, "a3f49ffdee1f8362", "norms and rotates with the plain operations",
          "around", _plain_rotary),
    _seam("streams", WORKER, "f42a3bb18adba2a5", "makes waiting for a stream a no-op",
          "set", _no_streams, _streams_are_ignored),
    _seam("chain", BACKEND, "d16b03b21ca33fc0", "tells the CPU attention that a block is a chain",
          "set", _chain_mask, _chain_is_said),
)
# fmt: on
