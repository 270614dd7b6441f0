"""DFlash2 in readable PyTorch: configuration, convolution, selector, and a whole drafter.

One pass of the draft fills a block: row 0 is the anchor, the last token of the text, and each further row starts as
a mask token. The target's head gives each row its best candidates, and the selector picks one path through them.

| Module | Holds |
|---|---|
| `config`, `fields`, `target` | what a draft's config.json says, its rules, and whether the draft fits its target |
| `rotary`, `convolution`, `layers`, `model` | the mathematics from hidden states of the target to those of a block |
| `selector`, `proposal` | scores between candidates, the path through them, and its distribution |
| `weights`, `drafter` | reading a checkpoint, and proposing |

Source: the DFlash2 modules of SGLang 0.5.23, `sglang/srt/models/dflash.py`. In float32 on the same weights the
tests find the same proposals, and hidden states within 1e-4.
"""

from penny_spec.dflash.config import DraftConfig, LayerSight, parse_config, read_config
from penny_spec.dflash.convolution import GroupedConvolution, convolve
from penny_spec.dflash.drafter import Drafter
from penny_spec.dflash.model import DraftContext, DraftModel
from penny_spec.dflash.proposal import Proposal
from penny_spec.dflash.rotary import Rope
from penny_spec.dflash.selector import CandidateSelector, follow, follow_in_order, walk
from penny_spec.dflash.target import check_target, mask_token_id

__all__ = [
    "CandidateSelector",
    "DraftConfig",
    "DraftContext",
    "DraftModel",
    "Drafter",
    "GroupedConvolution",
    "LayerSight",
    "Proposal",
    "Rope",
    "check_target",
    "convolve",
    "follow",
    "follow_in_order",
    "mask_token_id",
    "parse_config",
    "read_config",
    "walk",
]
