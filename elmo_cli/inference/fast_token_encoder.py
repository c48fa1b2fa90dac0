"""Fast token encoder with a cache: computes what `model.token_encoder` computes.

Faster modules replace the parts of the encoder. With compiled kernels, the bits of a token's
vector do not depend on the tokens that are encoded with it.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from elmo_cli.compiled.kernels import find_kernel
from elmo_cli.inference.precision import ComputeTypes, prepare_linear
from elmo_cli.model.token_encoder import Convolution, Highway, TokenEncoder, encode_in_chunks

_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to the device, and replace the modules for which there are faster ones."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if replacement := _make_faster(child, types):
                setattr(module, name, replacement)
    return encoder


def _make_faster(module: nn.Module, types: ComputeTypes) -> nn.Module | None:
    """Return a faster module that computes what `module` does, or None."""
    if isinstance(module, nn.Linear):
        return FastLinear(module, types)
    if isinstance(module, Convolution):
        return FastConvolution(module)
    if isinstance(module, Highway) and types.device.type == "cpu":
        return FastHighway(module)
    return FastTanh() if isinstance(module, nn.Tanh) and types.device.type == "cpu" else None


class FastLinear(nn.Module):
    """Linear layer in a precision, with inputs and outputs in float32."""

    def __init__(self, linear: nn.Linear, types: ComputeTypes) -> None:
        """Copy the weights of a layer."""
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._layer = prepare_linear(linear.weight.detach(), bias, types.weights, _FLOAT)

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs)


class FastConvolution(nn.Module):
    """Convolution by one product, in float32 in every precision."""

    def __init__(self, convolution: Convolution) -> None:
        """Copy the weights of a convolution."""
        super().__init__()
        assert convolution.bias is not None
        weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
        self._convolution = convolution
        self._layer = prepare_linear(weight, bias, _FLOAT, _FLOAT)

    def forward(self, embedded: Tensor) -> Tensor:
        """Convolve; see `Convolution.forward`."""
        windows = self._convolution.windows(embedded)
        return self._layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)


class FastHighway(nn.Module):
    """Highway with its elementwise part in C, if the kernel was compiled."""

    def __init__(self, highway: Highway) -> None:
        """Share the linear layers of a highway."""
        super().__init__()
        self._highway = highway

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to float32, shape (N, F); see `Highway.forward`."""
        kernel = find_kernel("highway", int, int, _FLOAT, _FLOAT, _FLOAT, _FLOAT)
        if kernel is None:
            result: Tensor = self._highway(inputs)
            return result
        out = torch.empty_like(inputs)
        carry, transform = self._highway.carry(inputs), self._highway.transform(inputs)
        kernel(*inputs.shape, inputs, carry, transform, out)
        return out


class FastTanh(nn.Module):
    """Hyperbolic tangent, in C if the kernel was compiled."""

    def forward(self, values: Tensor) -> Tensor:
        """Overwrite float32, shape (N, F), by its hyperbolic tangent."""
        kernel = find_kernel("tanh_float32", int, int, _FLOAT)
        if kernel is None:
            return values.tanh_()
        kernel(*values.shape, values)
        return values


class FastTokenEncoder:
    """Function from tokens to token vectors, on a device and in a precision."""

    def __init__(self, encoder: TokenEncoder, types: ComputeTypes) -> None:
        """Prepare an encoder, and replace its parts; see `prepare_token_encoder`."""
        self._encoder = prepare_token_encoder(encoder, types)
        self._types = types

    def __call__(self, tokens: Sequence[str]) -> Tensor:
        """Encode N tokens: float, shape (N, P)."""
        vectors: Tensor = self._encoder(self._encoder.token_ids(tokens).to(self._types.device))
        return vectors.to(self._types.values)


MAX_CACHED_CHARACTERS: Final = 1000
"""Maximum length of a token in the cache. With it, `capacity` limits the memory of the tokens."""


class TokenCache:
    """Vectors of the most recently used tokens.

    If one token of a call is longer than `MAX_CACHED_CHARACTERS`, none of its tokens is cached.
    Copies and pickles of a cache are empty.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Make an empty cache.

        Args:
            encode: Returns the vectors of tokens, float, shape (N, P).
            capacity: Maximum number of tokens in the cache.
        """
        self.capacity = capacity
        self._encode = encode
        # Row of each token in `_vectors`. The most recently used token is last.
        self._rows: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0, device="cpu")

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[object, int]]:
        return TokenCache, (self._encode, self.capacity)

    def vectors(self, tokens: Sequence[str]) -> Tensor:
        """Return the vectors of distinct tokens: float, shape (N, P)."""
        longest = max(map(len, tokens), default=0)
        if len(tokens) > self.capacity or longest > MAX_CACHED_CHARACTERS:
            return encode_in_chunks(self._encode, tokens)
        for token in tokens:
            if token in self._rows:
                self._rows.move_to_end(token)
        if missing := [token for token in tokens if token not in self._rows]:
            self._add(missing)
        rows = [self._rows[token] for token in tokens]
        return self._vectors[torch.tensor(rows, dtype=torch.int64, device=self._vectors.device)]

    def _add(self, tokens: list[str]) -> None:
        """Encode tokens and store their vectors in place of the least recently used ones."""
        vectors = encode_in_chunks(self._encode, tokens)
        if not len(self._vectors):
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._rows)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                free.append(self._rows.popitem(last=False)[1])
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._rows.update(zip(tokens, free, strict=True))
        except BaseException:  # After Ctrl-C or out of memory, rows may have wrong vectors.
            self._rows.clear()
            raise
