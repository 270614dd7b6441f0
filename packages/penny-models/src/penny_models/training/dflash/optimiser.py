"""The optimiser of a draft."""

import torch
from torch import nn

from penny_models.training.optim import Adam, Muon, Optimiser


class DraftOptimiser(Optimiser):
    """Muon for the matrices, Adam for the selector's tables and for everything else."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        named = dict(model.named_parameters())
        tables = [p for n, p in named.items() if n.endswith("codebook")]
        matrices = [p for n, p in named.items() if p.ndim == 2 and not n.endswith("codebook")]
        self.parameters = list(named.values())
        self.scale = torch.zeros((), device=device)
        self.rules = (
            Muon(matrices, rate=0.02, decay=0.01),
            Adam(tables, rate=0.006),
            Adam([p for p in named.values() if p.ndim != 2], rate=0.004),
        )
