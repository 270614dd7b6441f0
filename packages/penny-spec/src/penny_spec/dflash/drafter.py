"""A whole DFlash2 drafter for one request at a time: readable, not fast."""

from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_spec.dflash.config import DraftConfig, read_config
from penny_spec.dflash.model import DraftContext, DraftModel
from penny_spec.dflash.proposal import Proposal
from penny_spec.dflash.selector import walk
from penny_spec.dflash.weights import match, read_tensors

_DENSE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Drafter:
    """Proposes blocks of tokens from a target's hidden states, embedding and head.

    A round: `propose` from the context and the anchor (the last token of the text, not yet seen by the target);
    let the target run over anchor and proposals; verify (`penny_spec.verify`); `commit` the target's hidden states of
    the anchor and of the accepted tokens. The token that verification added is the next anchor.

    Args:
        model: the draft.
        embedding: float `(vocabulary, hidden)`, the target's.
        head: float `(vocabulary, hidden)`, the target's, as a plain matrix.
        mask_token_id: the token that stands for one not yet proposed; None: as in the draft's config.json.

    Raises:
        ValueError: embedding or head of a wrong shape, no mask token, a draft without selector or with a feature
            that this class does not compute.
        TypeError: a quantised embedding or head.
    """

    def __init__(
        self, model: DraftModel, embedding: Tensor, head: Tensor, *, mask_token_id: int | None = None
    ) -> None:
        config = model.config
        _check_computed(config)
        mask = config.mask_token_id if mask_token_id is None else mask_token_id
        if mask is None:
            raise ValueError(
                "The draft names no mask_token_id; find it with dflash.mask_token_id and pass it."
            )
        dtype = model.norm.weight.dtype
        for name, tensor in (("embedding", embedding), ("head", head)):
            if tensor.dtype not in _DENSE:
                raise TypeError(
                    f"The target's {name} is {str(tensor.dtype).removeprefix('torch.')}: quantised values are "
                    "no plain matrix. Dequantise it first."
                )
            if tensor.shape != (config.vocab_size, config.hidden_size):
                raise ValueError(
                    f"The target's {name} has shape {tuple(tensor.shape)}; the draft needs "
                    f"{(config.vocab_size, config.hidden_size)}. Is it the target that it was trained for?"
                )
        self.model = model
        self.config = config
        self.embedding = embedding.to(dtype)
        self.head = head.to(dtype)
        self.mask_token_id = mask

    @classmethod
    def load(
        cls,
        folder: Path | str,
        embedding: Tensor,
        head: Tensor,
        *,
        mask_token_id: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Self:
        """Read `config.json` and the safetensors of a checkpoint folder, and compute in `dtype`.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: the configuration or a file is wrong, or a tensor is missing, unknown or of a wrong shape.
        """
        config = read_config(Path(folder))
        _check_computed(config)
        with torch.device("meta"):
            model = DraftModel(config)
        tensors = match(read_tensors(Path(folder)), model.state_dict())
        # A copy: what is mapped may start at any byte of the file.
        placed = {name: value.to(embedding.device, dtype, copy=True) for name, value in tensors.items()}
        model.load_state_dict(placed, assign=True)
        return cls(model.eval().requires_grad_(False), embedding, head, mask_token_id=mask_token_id)

    @property
    def slots(self) -> int:
        """Draft tokens of a proposal."""
        return self.config.block_size - 1

    @torch.no_grad()
    def commit(self, features: Tensor, context: DraftContext | None = None) -> DraftContext:
        """The context with `N` more tokens; without `context`, one that starts here.

        Args:
            features: float `(N, K * hidden)`, the target's hidden states after `target_layer_ids`, side by side, of
                the tokens that follow the context.
            context: what was committed before; it is not changed.

        Raises:
            ValueError: features of a wrong width.
        """
        width = self.config.feature_count * self.config.hidden_size
        if features.dim() != 2 or features.shape[1] != width:
            raise ValueError(
                f"features has shape {tuple(features.shape)}; pass (tokens, {width}): hidden states after "
                f"{self.config.feature_count} layers of the target, {self.config.hidden_size} each."
            )
        start = self.model.empty_context() if context is None else context
        return self.model.extend(start, features.to(self.head.dtype))

    @torch.no_grad()
    def block(self, context: DraftContext, anchor: int) -> Tensor:
        """Hidden states `(block_size, hidden)` of the anchor's row and of the slots."""
        if not 0 <= anchor < self.config.vocab_size:
            raise ValueError(f"The anchor is {anchor}; token ids are 0 to {self.config.vocab_size - 1}.")
        ids = torch.full((self.config.block_size,), self.mask_token_id, device=self.embedding.device)
        ids[0] = anchor
        hidden: Tensor = self.model(context, F.embedding(ids, self.embedding))
        return hidden

    @torch.no_grad()
    def candidates(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The `K` best tokens `(..., K)` for `hidden` `(..., hidden)` by the target's head, and their logits."""
        logits, ids = F.linear(hidden, self.head).topk(self.config.selector_top_k)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) * self.config.output_multiplier
        cap = self.config.softcap
        return ids, logits if cap is None else cap * torch.tanh(logits / cap)

    @torch.no_grad()
    def propose(
        self, context: DraftContext, anchor: int, *, temperature: float = 0.0, uniforms: Tensor | None = None
    ) -> Proposal:
        """Propose the `slots` tokens after `anchor`, which stands at position `context.length`.

        Args:
            context: the tokens before the anchor.
            anchor: the id of the last token of the text.
            temperature: 0: the best step each time; else candidates are drawn at this temperature.
            uniforms: float `(1, slots)` in [0, 1), needed above temperature 0.

        Returns:
            A `Proposal` of one request.

        Raises:
            ValueError: an anchor outside the vocabulary; `uniforms` missing or of a wrong shape or range.
        """
        hidden = self.block(context, anchor)[1:].unsqueeze(0)
        ids, unary = self.candidates(hidden)
        anchors = torch.tensor([anchor], device=ids.device)
        scores = self.model.candidate_selector.scores(ids, unary, hidden, anchors)
        heat = torch.tensor([temperature], device=ids.device)
        return walk(ids, scores, temperatures=heat, uniforms=uniforms)


def _check_computed(config: DraftConfig) -> None:
    if config.unsupported:
        raise ValueError(
            f"The draft's config.json has {', '.join(config.unsupported)}; this drafter does not compute that. "
            "Serve the draft with SGLang."
        )
    if not config.selector_rank:
        raise ValueError(
            "The draft has no candidate selector; this drafter reads DFlash2 drafts, which have one."
        )
