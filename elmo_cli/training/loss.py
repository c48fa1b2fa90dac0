"""The softmax and its loss, over all words or a sample of them.

In training, a sample of words may replace the whole vocabulary (Jean et al., 2015). It
trains the same softmax, but exp of its loss is not a perplexity: a few words are easier
to distinguish than all words.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from elmo_cli.compiled import structures
from elmo_cli.compiled.kernels import has_kernel, run_kernel
from elmo_cli.compiled.structures import address
from elmo_cli.model.placement import autocast_dtype


class SampledWords(NamedTuple):
    """Distinct words, int64, shape (S,), and the number of draws until there were S."""

    words: Tensor
    n_draws: int


def draw_words(
    n_words: int, n_samples: int, generator: torch.Generator
) -> SampledWords:
    """Draw distinct words from the log-uniform distribution, like TensorFlow."""
    draws = torch.empty(0, dtype=torch.int64)
    while True:
        uniform = torch.rand(2 * n_samples, generator=generator, dtype=torch.float64)
        # P(word) = log((word + 2) / (word + 1)) / log(n_words + 1)
        drawn = (uniform * math.log(n_words + 1)).exp().long() - 1
        draws = torch.cat([draws, drawn.clamp(0, n_words - 1)])
        n_draws = len(draws)
        # The first draw of each word, or `n_draws` for a word that was not drawn.
        first_draws = torch.full((n_words,), n_draws)
        first_draws.scatter_reduce_(0, draws, torch.arange(n_draws), "amin")
        words = (first_draws < n_draws).nonzero()[:, 0]
        if len(words) >= n_samples:
            earliest = first_draws[words].argsort()[:n_samples]
            words = words[earliest]
            last_draw = int(first_draws[words[-1]])
            return SampledWords(words, n_draws=last_draw + 1)


class OutputLayer(nn.Module):
    """Output layer: one vector and one bias per word of the vocabulary."""

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.randn(n_words, projection_dim) / projection_dim**0.5
        )
        self.bias = nn.Parameter(torch.zeros(n_words))

    def forward(
        self, context: Tensor, targets: Tensor, samples: SampledWords | None = None
    ) -> Tensor:
        """Return the negative log probability of each target in nats: float, (N,).

        Args:
            context: Top layer at each prediction, float, shape (N, P).
            targets: Word of each prediction, int64, shape (N,).
            samples: Words, on the same device, that stand for all words. By default,
                all words are computed.
        """
        if samples is not None:
            return self._sampled_losses(context, targets, samples)
        logits = functional.linear(context, self.weight, self.bias)  # (N, V)
        return functional.cross_entropy(logits, targets, reduction="none")

    def _sampled_losses(
        self, context: Tensor, targets: Tensor, samples: SampledWords
    ) -> Tensor:
        words, n_draws = samples
        n_words = len(self.bias)
        # The bias corrects for words that are drawn more often than others.
        bias = self.bias[words] - _log_expected_count(words, n_draws, n_words)
        target_correction = _log_expected_count(
            targets, n_draws=n_draws, n_words=n_words
        )
        target_bias = self.bias[targets] - target_correction
        # A sample that equals the target must not count twice.
        sample_of_word = torch.full((n_words,), -1, device=words.device)
        sample_of_word[words] = torch.arange(len(words), device=words.device)
        losses: Tensor = _SampledSoftmax.apply(  # type: ignore[no-untyped-call]
            context,
            self.weight,
            bias,
            target_bias,
            words,
            targets,
            sample_of_word[targets],
        )
        return losses


class _SampledSoftmax(Function):
    """Negative log probability of targets among sampled words.

    It keeps their probabilities in the memory of their logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        context: Tensor,  # (N, P)
        weight: Tensor,  # (V, P)
        bias: Tensor,  # bias of the samples, (S,)
        target_bias: Tensor,  # (N,)
        words: Tensor,  # samples, int64, (S,)
        targets: Tensor,  # int64, (N,)
        excluded: Tensor,  # sample of each row that does not count, or -1, int64, (N,)
    ) -> Tensor:
        """Return the losses, float32, shape (N,)."""
        dtype = autocast_dtype(context)
        rows = weight[words].to(dtype)
        factors = context.to(dtype)
        logits = factors @ rows.t()  # (N, S)
        products = context * weight[targets]  # (N, P)
        target_logits = (products.sum(dim=1) + target_bias).float()
        totals = _probabilities(
            logits, bias.float(), others=target_logits, excluded=excluded
        )
        losses = totals - target_logits
        ctx.save_for_backward(factors, weight, rows, logits, losses, words, targets)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        context, weight, rows, probabilities, losses, words, targets = ctx.saved_tensors
        # The gradient for a logit is its probability, minus 1 for the target.
        target_probabilities = (-losses).exp()
        d_target = gradient * (target_probabilities - 1)
        d_target = d_target[:, None].to(weight.dtype)  # (N, 1)
        scale = gradient[:, None].to(context.dtype)  # (N, 1)
        d_context = probabilities @ rows * scale  # (N, P)
        d_context = d_context.addcmul(d_target, weight[targets])
        d_weight = torch.zeros_like(weight)
        d_rows = probabilities.t() @ (context * scale)  # (S, P)
        d_weight[words] = d_rows.to(weight.dtype)
        d_weight.index_add_(0, targets, context * d_target)
        d_bias = scale[:, 0] @ probabilities  # (S,)
        return (
            d_context,
            d_weight,
            d_bias,
            d_target[:, 0],
            None,  # Words, targets and excluded samples have no gradients.
            None,
            None,
        )


def _probabilities(
    logits: Tensor, bias: Tensor, others: Tensor, excluded: Tensor
) -> Tensor:
    """Overwrite logits by their probabilities, and return log(sum(exp)) of each row.

    Args:
        logits: Shape (N, S), without the bias.
        bias: Bias of each column, float32, shape (S,), which is added first.
        others: One more logit per row, float32, shape (N,).
        excluded: Column of each row that does not count, or -1, int64, shape (N,).

    Returns:
        The logarithms, float32, shape (N,).
    """
    kernel = f"softmax_{logits.dtype}"
    if logits.device.type == "cpu" and has_kernel(kernel):
        n, dim = logits.shape
        maxima = torch.empty_like(others)
        sums = torch.empty_like(others)
        arguments = structures.Softmax(
            n=n,
            dim=dim,
            logits=address(logits, logits.dtype),
            bias=address(bias, torch.float32),
            extra=address(others, torch.float32),
            ignored=address(excluded, torch.int64),
            maxima=address(maxima, torch.float32),
            sums=address(sums, torch.float32),
        )
        run_kernel(kernel, arguments)
        return maxima + sums.log()
    rows = (excluded >= 0).nonzero()[:, 0]
    logits.add_(bias)[rows, excluded[rows]] = -math.inf
    totals = torch.logaddexp(logits.float().logsumexp(dim=1), others)
    logits.sub_(totals[:, None]).exp_()
    return totals


def _log_expected_count(words: Tensor, n_draws: int, n_words: int) -> Tensor:
    """Return the log of the probability that a word is among the distinct samples."""
    # MPS has no float64.
    exact = words.cpu() if words.device.type == "mps" else words
    rank = exact.double() + 1
    probability = torch.log1p(1 / rank) / math.log(n_words + 1)
    log_absent = n_draws * torch.log1p(-probability)
    present = -torch.expm1(log_absent)
    return present.log().float().to(words.device)
