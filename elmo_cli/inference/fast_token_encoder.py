"""The fast token encoder: the same as the readable one, and a cache of what it gave.

The encoder's parts are replaced by functions of the same meaning. Where there are kernels, the
vector of a token does not depend, to the bit, on the tokens that are encoded with it.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from elmo_cli.compiled.kernels import kernel, linear
from elmo_cli.inference.device import ComputeTypes
from elmo_cli.model.token_encoder import Convolution, Highway, TokenEncoder, encode_in_chunks

_Function = Callable[[Tensor], Tensor]
_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to its device, and replace the parts that can be faster there."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if function := _faster(child, types):
                setattr(module, name, _Replacement(function))
    return encoder


class _Replacement(nn.Module):
    """A function in the place of a module."""

    def __init__(self, function: _Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self._function(inputs)


def _faster(module: nn.Module, types: ComputeTypes) -> _Function | None:
    """A function that computes what a module does, if there is a faster one."""
    if isinstance(module, nn.Linear):
        bias = None if module.bias is None else module.bias.detach()
        return linear(module.weight.detach(), bias, types.weights, _FLOAT)
    if isinstance(module, Convolution):
        return _convolution(module)
    if isinstance(module, Highway) and types.device.type == "cpu":
        return _highway(module)
    return _tanh() if isinstance(module, nn.Tanh) and types.device.type == "cpu" else None


def _convolution(convolution: Convolution) -> _Function:
    """See `Convolution.forward`; in float32 always."""
    assert convolution.bias is not None
    weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
    layer = linear(weight, bias, _FLOAT, _FLOAT)

    def forward(embedded: Tensor) -> Tensor:
        windows = convolution.windows(embedded)
        return layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)

    return forward


def _highway(highway: Highway) -> _Function | None:
    """See `Highway.forward`; its elementwise part in C."""
    function = kernel("highway", int, int, _FLOAT, _FLOAT, _FLOAT, _FLOAT)
    if function is None:
        return None

    def forward(inputs: Tensor) -> Tensor:
        out = torch.empty_like(inputs)
        function(*inputs.shape, inputs, highway.carry(inputs), highway.transform(inputs), out)
        return out

    return forward


def _tanh() -> _Function | None:
    """Float32, shape (N, F), to the same shape: overwritten."""
    function = kernel("tanh_float32", int, int, _FLOAT)
    if function is None:
        return None

    def forward(values: Tensor) -> Tensor:
        function(*values.shape, values)
        return values

    return forward


MAX_CHARACTERS = 1000
"""Of a token that is kept, so that capacity bounds the memory of the tokens too."""


class TokenCache:
    """The vectors of the tokens that were used last.

    Tokens among which one is longer than `MAX_CHARACTERS` are not kept.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Start empty.

        Args:
            encode: tokens to token vectors, float, shape (N, P).
            capacity: tokens kept.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: OrderedDict[str, int] = OrderedDict()  # from the least to the most recent
        self._vectors = torch.empty(0)

    def vectors(self, tokens: Sequence[str]) -> Tensor:
        """The vectors of distinct tokens: float, shape (N, P)."""
        if len(tokens) > self.capacity or max(map(len, tokens), default=0) > MAX_CHARACTERS:
            return encode_in_chunks(self._encode, tokens)
        slots = self._slots
        for token in tokens:
            if token in slots:
                slots.move_to_end(token)  # now the most recently used
        if missing := [token for token in tokens if token not in slots]:
            self._add(missing)
        rows = torch.tensor([slots[token] for token in tokens], dtype=torch.int64)
        return self._vectors[rows.to(self._vectors.device)]

    def _add(self, tokens: list[str]) -> None:
        vectors = encode_in_chunks(self._encode, tokens)
        if not len(self._vectors):
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._slots)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                free.append(self._slots.popitem(last=False)[1])
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._slots.update(zip(tokens, free, strict=True))
        except BaseException:  # Ctrl-C, or want of memory: slots in use may have other vectors
            self._slots.clear()
            raise
