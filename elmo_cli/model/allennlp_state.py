"""State dicts of AllenNLP's `Elmo`, from checkpoints of 2018 to 2020 (best.th).

The mixes have the names that they have here. The biLM is stored below `_elmo_lstm`:

    _token_embedder
        ._char_embedding_weights            (262, E)
        .char_conv_i.weight, bias           (count, E, width), (count)
        ._highways._layers.k.weight, bias   (2 F, F), (2 F)
        ._projection.weight, bias           (P, F), (P)
    _elmo_lstm.forward_layer_l, _elmo_lstm.backward_layer_l
        .input_linearity.weight             (4 D, P)
        .state_linearity.weight, bias       (4 D, P), (4 D)
        .state_projection.weight            (P, D)

See `allennlp_layers` for the forms of highways and gates.
"""

import re
from collections.abc import Iterable, Iterator, MutableMapping, Set
from typing import Any, Final

import torch
from torch import Tensor

from elmo_cli.model.allennlp_layers import (
    gates_bias_from_allennlp,
    gates_from_allennlp,
    highway_from_allennlp,
)

_NO_FIT: Final = "AllenNLP's biLM does not fit the biLM of this Elmo, which"
_BILM: Final = "_elmo_lstm."
_INNER_BILM: Final = "_elmo_lstm._elmo_lstm."
"""Part of the names of all LSTMs, after the name of the `Elmo`."""
_FOLLOWS: Final = (
    "_word_embedding.weight",
    "_token_embedder._beginning_of_sentence_characters",
    "_token_embedder._end_of_sentence_characters",
)
"""Values that follow from others: of `vocab_to_cache`, and the ids of boundaries."""
_TOKEN_ENCODER: Final = (
    (r"_token_embedder\._char_embedding_weights", r"char_embedding.weight"),
    (r"_token_embedder\.char_conv_(\d+)\.(weight|bias)", r"convolutions.\1.\2"),
    (r"_token_embedder\._projection\.(weight|bias)", r"projection.\1"),
)
"""Names of AllenNLP as patterns, and names in a token encoder of the same values."""
_HIGHWAY: Final = re.compile(
    r"_token_embedder\._highways\._layers\.(\d+)\.(weight|bias)"
)
_LSTM: Final = re.compile(r"_elmo_lstm\.(forward|backward)_layer_(\d+)\.(.+)")


def rename_allennlp_state(
    state: MutableMapping[str, Any], prefix: str, bilm_names: Set[str]
) -> list[str]:
    """Give the biLM in a state dict of AllenNLP the names and forms that it has here.

    A state dict of this package stays as it is.

    Args:
        state: State dict of a model with an `Elmo`: changed.
        prefix: Name of the `Elmo` in the model, with a dot at its end, or "".
        bilm_names: Names in the state dict of its `BiLm`.

    Returns:
        Errors: a biLM that would not be read as a whole.
    """
    if prefix == "":
        elsewhere = _name_of_elmo(state)
        if elsewhere:
            return [
                f"AllenNLP's Elmo is a part of this state dict, {elsewhere!r}. Load "
                f"the values below {elsewhere + '.'!r}, without this part of their "
                "names."
            ]
    theirs: dict[str, Tensor] = {}
    for name in list(state):
        if name.startswith(prefix + _BILM):
            theirs[name.removeprefix(prefix + _BILM)] = state.pop(name)
    if not theirs:
        return []
    for name in _FOLLOWS:
        theirs.pop(name, None)
    ours = dict(_translate(theirs))
    for name, values in ours.items():
        state[f"{prefix}bilm.{name}"] = values
    unknown = theirs.keys() | (ours.keys() - bilm_names)
    missing = bilm_names - ours.keys()
    errors = []
    if unknown:
        errors.append(f"{_NO_FIT} does not have {', '.join(sorted(unknown))}.")
    if missing:
        errors.append(f"{_NO_FIT} also needs {', '.join(sorted(missing))}.")
    return errors


def _name_of_elmo(state: Iterable[str]) -> str:
    """Return the name of the first `Elmo` that is part of another module, or ""."""
    for name in state:
        start, found, _ = name.partition("." + _INNER_BILM)
        if found:
            return start
    return ""


def _translate(theirs: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the values of a biLM by their names here.

    Values that can be read are removed from `theirs`.
    """
    for name in list(theirs):
        for pattern, replacement in _TOKEN_ENCODER:
            match = re.fullmatch(pattern, name)
            if match:
                yield f"token_encoder.{match.expand(replacement)}", theirs.pop(name)
        highway = _HIGHWAY.fullmatch(name)
        if highway:
            k, kind = highway.groups()
            carry, transform = highway_from_allennlp(theirs.pop(name))
            yield f"token_encoder.highways.{k}.carry.{kind}", carry
            yield f"token_encoder.highways.{k}.transform.{kind}", transform
    lstms = [match.groups() for match in map(_LSTM.fullmatch, theirs) if match]
    for direction, layer in dict.fromkeys((lstm[0], lstm[1]) for lstm in lstms):
        yield from _translate_lstm(theirs, direction, layer)


def _translate_lstm(
    theirs: dict[str, Tensor], direction: str, layer: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield the values of one LSTM, if it is complete."""
    prefix = f"_elmo_lstm.{direction}_layer_{layer}."
    names = [
        f"{prefix}input_linearity.weight",
        f"{prefix}state_linearity.weight",
        f"{prefix}state_linearity.bias",
        f"{prefix}state_projection.weight",
    ]
    if not all(name in theirs for name in names):
        return
    weight_ih, weight_hh, bias, projection = [theirs.pop(name) for name in names]
    weight = torch.cat([weight_ih, weight_hh], dim=1)
    lstm = f"{direction}_layers.{layer}"
    yield f"{lstm}.gates.weight", gates_from_allennlp(weight)
    yield f"{lstm}.gates.bias", gates_bias_from_allennlp(bias)
    yield f"{lstm}.projection.weight", projection
