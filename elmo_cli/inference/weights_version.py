"""Versions of weights, which show whether the weights have changed."""

from collections.abc import Iterable

from torch import Tensor


class WeightsVersion:
    """Addresses of weights, and torch's counters of their changes.

    torch does not count `weight.data.add_()`, NumPy's writes, or the steps of an
    optimizer with `fused=True`. Copies and pickles are versions of no weights.
    """

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        # References keep the memory, so that later weights cannot get the addresses of
        # these.
        self._weights = [weight.detach() for weight in weights]
        self.key = [
            (weight.data_ptr(), -1 if weight.is_inference() else weight._version)
            for weight in self._weights
        ]

    def __reduce__(self) -> tuple[type["WeightsVersion"], tuple[()]]:
        return WeightsVersion, ()
