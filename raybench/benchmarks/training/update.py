"""The end of a step: gradients unscaled, measured and clipped, the learning rate set, the optimizer's step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.schedule import rate_at


class Update:
    """Of one model; ``scaler`` scales its losses. Each call is one step of the schedule."""

    def __init__(self, options: TrainingOptions, parameters: list[nn.Parameter], scaler: torch.amp.GradScaler) -> None:
        self._options, self._parameters, self._scaler = options, parameters, scaler
        self.optimizer = optimizer_of(options, parameters)
        self._position = 0

    def __call__(self, *, norm: bool) -> torch.Tensor | None:
        """Returns the norm of all gradients before they are clipped, where it is asked for; never reads the device."""
        limit, found = self._options.clip_grad_norm, None
        if norm or limit is not None:
            self._scaler.unscale_(self.optimizer)
            found = gradient_norm(self._parameters)
        if limit is not None and found is not None:
            clip(self._parameters, found, limit)
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self._options, self._position)
        self._position += 1
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return found if norm else None


def optimizer_of(options: TrainingOptions, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that the options name, with PyTorch's defaults but for the learning rate."""
    makers: dict[str, Callable[..., Any]] = {
        "adamw": torch.optim.AdamW,
        "adam": torch.optim.Adam,
        "sgd": torch.optim.SGD,
    }
    made: torch.optim.Optimizer = makers[options.optimizer](parameters, lr=options.learning_rate)
    return made


def gradient_norm(parameters: list[nn.Parameter]) -> torch.Tensor:
    """The Euclidean norm of all gradients together; of sharded ones, over all ranks."""
    from torch.distributed.tensor import DTensor  # costs a second

    gradients = [one.grad for one in parameters if one.grad is not None]
    total = torch.nn.utils.get_total_norm([grad.float() for grad in gradients])
    return total.full_tensor() if isinstance(total, DTensor) else total


def clip(parameters: list[nn.Parameter], norm: torch.Tensor, limit: float) -> None:
    """Gradients times ``limit / norm`` where their norm is above the limit; of sharded ones each rank its part."""
    from torch.distributed.tensor import DTensor  # costs a second

    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for one in parameters:
        if one.grad is not None:
            part = one.grad.to_local() if isinstance(one.grad, DTensor) else one.grad
            part.mul_(factor.to(part.dtype))
