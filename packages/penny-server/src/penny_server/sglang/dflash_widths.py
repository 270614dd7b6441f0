"""What a DFlash worker needs for each block size, and the swap between two of them.

Stock's ``AdaptiveController`` drives `DFlashWidths` as it drives its EAGLE worker: build every state once, then swap.
A state is the worker's buffers, the attention back ends of target and draft, and their captured graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SIZES = ("block_size", "speculative_num_draft_tokens")
BUFFERS = (
    "_draft_block_ids_buf",
    "_draft_block_positions_buf",
    "_draft_block_tokens_buf",
    "_draft_verify_out_cache_loc_buf",
    "_draft_block_end_buf",
    "_draft_seq_lens_cpu_buf",
)
"""Made by stock when they are None."""
ACCEPTED = (
    "_accept_len_buf",
    "_commit_lens_bufs",
    "_bonus_id_bufs",
    "_out_tokens_bufs",
    "_new_seq_lens_bufs",
)
CAPACITY = "_accept_bonus_buffer_cap"
WORKER = (
    *SIZES,
    *BUFFERS,
    *ACCEPTED,
    CAPACITY,
    "_block_pos_offsets",
    "_draft_block_spec_info",
    "_draft_sampler",
)
RUNNER = ("attn_backend", "decode_cuda_graph_runner")
DRAFT = (*RUNNER, "capture_tail_hooks")


@dataclass
class DFlashState:
    """Everything of one width: draft tokens, one less than the block."""

    speculative_num_steps: int
    speculative_num_draft_tokens: int
    worker: dict[str, Any] = field(default_factory=dict)
    draft: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)


def _attributes(holder: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(holder, name) for name in names}


def _put(holder: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(holder, name, value)


class DFlashWidths:
    """A ``DFlashWorkerV2`` as stock's ``AdaptiveSpecWorker``."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._draft = worker.draft_model_runner
        self._target = worker.model_runner
        self.current = self._filled(DFlashState(worker.block_size - 1, worker.block_size))

    @property
    def speculative_num_steps(self) -> int:
        """Draft tokens of a block now."""
        return self.current.speculative_num_steps

    def build_adaptive_runtime_state(
        self,
        speculative_num_steps: int,
        speculative_num_draft_tokens: int,
        cuda_graph_bs: list[int] | None = None,
    ) -> DFlashState:
        """Builds the state of another width; ``cuda_graph_bs`` are the batch sizes to capture it for."""
        before = self._filled(self.current)
        block = speculative_num_draft_tokens
        state = DFlashState(speculative_num_steps, block)
        with self._asked(block, cuda_graph_bs):
            self._clear(block)
            for runner in (self._target, self._draft):
                shares = runner.init_new_workspace
                runner.attn_backend = runner._get_attention_backend(init_new_workspace=True)
                runner.init_new_workspace = shares
            if cuda_graph_bs:
                self._capture(speculative_num_steps, block)
            else:
                self._target.decode_cuda_graph_runner = self._draft.decode_cuda_graph_runner = None
            self._filled(state)
        self._restore(before)
        return state

    def apply_runtime_state(self, state: DFlashState) -> None:
        """Swaps ``state`` in; at the start of a decode forward only."""
        if state is self.current:
            return
        from sglang.srt.runtime_context import get_context

        self._filled(self.current)
        self._restore(state)
        self.current = state
        get_context().override(
            "penny.adaptive", speculative_num_draft_tokens=state.speculative_num_draft_tokens
        )

    def _filled(self, state: DFlashState) -> DFlashState:
        state.worker = _attributes(self._worker, WORKER)
        state.draft = _attributes(self._draft, DRAFT)
        state.target = _attributes(self._target, RUNNER)
        return state

    def _restore(self, state: DFlashState) -> None:
        _put(self._worker, state.worker)
        _put(self._draft, state.draft)
        _put(self._target, state.target)
        self._worker.draft_model.set_block_size(state.speculative_num_draft_tokens)

    def _clear(self, block: int) -> None:
        from sglang.srt.speculative.dflash_worker_v2 import (
            build_block_pos_offsets,
            make_draft_block_spec_info,
        )

        worker = self._worker
        fresh = dict.fromkeys((*BUFFERS, "_draft_sampler")) | dict.fromkeys(SIZES, block) | {CAPACITY: 0}
        _put(worker, fresh)
        worker.draft_model.set_block_size(block)
        worker._block_pos_offsets = build_block_pos_offsets(length=block, device=worker.device)
        worker._draft_block_spec_info = make_draft_block_spec_info(
            draft_token_num=block, device=worker.device
        )
        self._draft.capture_tail_hooks = []

    def _capture(self, steps: int, block: int) -> None:
        from sglang.srt.model_executor.runner import DecodeCudaGraphRunner

        self._worker.init_cuda_graphs()
        self._target.decode_cuda_graph_runner = DecodeCudaGraphRunner(
            self._target,
            attn_backend=self._target.attn_backend,
            speculative_num_steps=steps,
            speculative_num_draft_tokens=block,
        )

    @contextmanager
    def _asked(self, block: int, cuda_graph_bs: list[int] | None) -> Iterator[None]:
        """Buffers and graphs take their sizes from the server's settings, so those say ``block`` meanwhile."""
        from sglang.srt.runtime_context import get_context, get_exec, get_spec

        asked: dict[str, Any] = {"speculative_num_draft_tokens": block}
        usual: dict[str, Any] = {"speculative_num_draft_tokens": get_spec().speculative_num_draft_tokens}
        if cuda_graph_bs:
            asked["cuda_graph_bs_decode"] = cuda_graph_bs
            usual["cuda_graph_bs_decode"] = get_exec().graph.cuda_graph_bs_decode
        get_context().override("penny.adaptive", **asked)
        try:
            yield
        finally:
            get_context().override("penny.adaptive", **usual)
