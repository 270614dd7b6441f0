"""Muon for the hidden matrices, Adam for the rest; every step runs without waiting for the device.

Muon: Jordan et al., 2024 (momentum, then orthogonalisation by a quintic Newton-Schulz iteration).
"""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_BETAS = (0.9, 0.98)
_TABLES = ("embed_tokens", "lm_head", "ngram_embedding", "codebook")
_NOT_MATRICES = ("conv1d", "mlp.gate.", "shared_expert_gate", "block_inject_weight", "base_kernel")
"""Parts of names: filters, routers and gates, which Adam trains."""


def orthogonalise(batch: Tensor) -> Tensor:
    """Bring the singular values of each matrix [n, rows, columns] close to 1."""
    a, b, c = _COEFFICIENTS
    x: Tensor = batch.bfloat16() if batch.is_cuda else batch
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.transpose(-1, -2) if tall else x).to(batch.dtype)


class Muon:
    """Momentum 0.95 (Nesterov), orthogonalised per shape group, with decoupled weight decay.

    A parameter [n, rows, columns] is n matrices, as the experts of a mixture are.
    """

    def __init__(self, parameters: list[nn.Parameter], rate: float, decay: float) -> None:
        groups: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for parameter in parameters:
            groups[parameter.shape[-2:]].append(parameter)
        self.groups = list(groups.values())
        self.momenta = [torch.zeros_like(_matrices(group)) for group in self.groups]
        self.rate, self.decay = rate, decay

    @torch.no_grad()
    def step(self, scale: Tensor) -> None:
        """Update the parameters; ``scale`` (a scalar tensor) multiplies the learning rate."""
        for group, momentum in zip(self.groups, self.momenta, strict=True):
            grads = _matrices([p.grad for p in group if p.grad is not None])
            momentum.lerp_(grads, 0.05)
            update = orthogonalise(grads.lerp(momentum, 0.95))
            rate = scale * self.rate * max(1.0, grads.shape[-2] / grads.shape[-1]) ** 0.5
            counts = [parameter[..., 0, 0].numel() for parameter in group]
            for parameter, change in zip(group, update.split(counts), strict=True):
                parameter.mul_(1 - scale * self.rate * self.decay).sub_(change.view_as(parameter) * rate)


def _matrices(tensors: Sequence[Tensor]) -> Tensor:
    """Return all the matrices of tensors [rows, columns] or [n, rows, columns] in one tensor."""
    return torch.cat([tensor.detach().reshape(-1, *tensor.shape[-2:]) for tensor in tensors])


class Adam:
    """Adam (betas 0.9 and 0.98) over all given parameters as one flat vector."""

    def __init__(self, parameters: list[nn.Parameter], rate: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.sizes = [parameter.numel() for parameter in parameters]
        device = parameters[0].device if parameters else None
        self.first = torch.zeros(sum(self.sizes), device=device)
        self.second = torch.zeros_like(self.first)
        self.decays = torch.ones(2, device=device)
        self.betas = torch.tensor(_BETAS, device=device)

    @torch.no_grad()
    def step(self, scale: Tensor) -> None:
        """Update the parameters; ``scale`` (a scalar tensor) multiplies the learning rate."""
        if not self.parameters:
            return
        grads = torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None])
        self.decays.mul_(self.betas)
        self.first.lerp_(grads, 1 - _BETAS[0])
        self.second.lerp_(grads * grads, 1 - _BETAS[1])
        mean = self.first / (1 - self.decays[0])
        spread = (self.second / (1 - self.decays[1])).sqrt() + 1e-10
        change = mean / spread * (scale * self.rate)
        for parameter, part in zip(self.parameters, change.split(self.sizes), strict=True):
            parameter.sub_(part.view_as(parameter))


class Optimiser:
    """Muon and both Adams behind one ``step``; ``scale`` is the schedule's factor, a scalar on the device."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        tables = {n: p for n, p in trained.items() if any(part in n for part in _TABLES)}
        matrices = {
            n: p
            for n, p in trained.items()
            if p.ndim >= 2 and n not in tables and not any(part in n for part in _NOT_MATRICES)
        }
        self.parameters = list(trained.values())
        self.scale = torch.zeros((), device=device)
        self.rules = (
            Muon(list(matrices.values()), rate=0.02, decay=0.01),
            Adam(list(tables.values()), rate=0.006),
            Adam([p for n, p in trained.items() if n not in tables and n not in matrices], rate=0.004),
        )

    def step(self) -> None:
        """Clip the gradient norm at 1 and update every parameter."""
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        for rule in self.rules:
            rule.step(self.scale)

    def zero_grad(self) -> None:
        """Zero the gradients in place: a captured step needs their addresses to stay."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()
