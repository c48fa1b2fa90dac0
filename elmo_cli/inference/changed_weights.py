"""Detection of weights that a user has changed after they were copied.

Torch counts changes of a tensor, but not those through `parameter.data` or NumPy. Values show them.
"""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_SAMPLED_ROWS = 32
"""Number of indices per dimension of a tensor that `sample` reads."""


def fingerprint(module: nn.Module) -> Tensor:
    """Return the products of all weights of a module with fixed numbers, float32, shape (n,).

    The change of any single value changes them. It takes as long as reading all weights.
    """
    products = []
    for values in module.state_dict().values():
        rows = values.flatten(1) if values.dim() > 1 else values.reshape(1, -1)
        columns = torch.arange(rows.shape[1], dtype=torch.float32, device=rows.device)
        products.append((rows.float() @ columns.cos()).cpu())
    return torch.cat(products)


def sample(weights: Iterable[Tensor]) -> Tensor:
    """Return some values of each weight, float32, shape (n,).

    It takes no time, and misses the change of a few values.
    """
    sampled = []
    for weight in weights:
        steps = [slice(None, None, max(1, size // _SAMPLED_ROWS)) for size in weight.shape]
        sampled.append(weight.detach()[tuple(steps)].flatten().float())
    return torch.cat(sampled)


def are_equal(one: nn.Module, other: nn.Module) -> bool:
    """Return whether two modules have equal weights, on the CPU."""
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(
        torch.equal(values, second[name]) for name, values in first.items()
    )


def weights_sha256(module: nn.Module, start: str) -> str:
    """Return the SHA-256, in hexadecimal, of a text and all weights of a module."""
    digest = hashlib.sha256(start.encode())
    for name, values in module.state_dict().items():
        digest.update(name.encode())
        digest.update(values.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
