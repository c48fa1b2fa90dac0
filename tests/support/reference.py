"""ELMo once more: slow, obvious, in float64, one token and one step after the other.

It shares no line with the package, and works on the arrays of a weights file by
their bilm-tf names. Options are the content of an options.json.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Arrays = dict[str, Array]
Options = dict[str, Any]

FORWARD = 0
BACKWARD = 1


class CellState(NamedTuple):
    """State of one LSTM within one sentence."""

    hidden: Array
    """Shape (P,)."""
    cell: Array
    """Shape (D,)."""


State = list[tuple[CellState, CellState]]
"""For each layer, the state of the forward and of the backward LSTM."""


def read_arrays(path: str | Path) -> Arrays:
    """Return all datasets of a weights file, by name."""
    items: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        file.visititems(items.__setitem__)
        datasets = {
            name: item for name, item in items.items() if isinstance(item, h5py.Dataset)
        }
        return {name: item[()].astype(np.float64) for name, item in datasets.items()}


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(x / 2)


def clipped(x: Array, bound: float | None) -> Array:
    return np.clip(x, -bound, bound) if bound else x


# Characters


def character_row(token: str, n_characters: int = 50) -> list[int]:
    """Return the ids of one token, 0 to 260, before 1 is added."""
    bounds = {"<S>": [256], "</S>": [257]}
    row = [
        258,
        *bounds.get(token, token.encode("utf-8", "ignore")[: n_characters - 2]),
        259,
    ]
    return row + [260] * (n_characters - len(row))


# Token encoder


def token_vector(
    token: str, options: Options, arrays: Arrays, words: Sequence[str] | None = None
) -> Array:
    """Return the vector of one token, shape (P,)."""
    if "char_cnn" not in options:
        assert words is not None
        row = words.index(token) if token in words else words.index("<UNK>")
        vector: Array = arrays["embedding"][row]
        return vector
    features = convolutions(token, options, arrays)
    for k in range(options["char_cnn"].get("n_highway") or 0):
        features = highway(features, k, arrays)
    if "CNN_proj/W_proj" not in arrays:
        return features
    projected: Array = features @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"]
    return projected


def convolutions(token: str, options: Options, arrays: Arrays) -> Array:
    """Return the activation of each filter's largest response to the token."""
    char_cnn = options["char_cnn"]
    ids = character_row(token, char_cnn.get("max_characters_per_token", 50))
    characters = arrays["char_embed"][ids]
    features = []
    for i, (width, _) in enumerate(char_cnn["filters"]):
        weights = arrays[f"CNN/W_cnn_{i}"][0]
        bias = arrays[f"CNN/b_cnn_{i}"]  # (width, C, count)
        responses = [
            np.tensordot(characters[start : start + width], weights, 2) + bias
            for start in range(len(characters) - width + 1)
        ]
        largest = np.max(responses, axis=0)
        is_relu = char_cnn["activation"] == "relu"
        features.append(np.maximum(largest, 0) if is_relu else np.tanh(largest))
    return np.concatenate(features)


def highway(x: Array, k: int, arrays: Arrays) -> Array:
    carry = x @ arrays[f"CNN_high_{k}/W_carry"] + arrays[f"CNN_high_{k}/b_carry"]
    transform = (
        x @ arrays[f"CNN_high_{k}/W_transform"] + arrays[f"CNN_high_{k}/b_transform"]
    )
    gate = sigmoid(carry)
    return gate * np.maximum(transform, 0) + (1 - gate) * x


# biLM


def zero_state(options: Options) -> State:
    lstm = options["lstm"]
    zeros = CellState(np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"]))
    return [(zeros, zeros)] * lstm.get("n_layers", 1)


def lstm_step(
    x: Array,
    state: CellState,
    direction: int,
    layer: int,
    options: Options,
    arrays: Arrays,
) -> CellState:
    """Run one step of one LSTM. The new hidden state is its output."""
    lstm = options["lstm"]
    name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    gates = (
        np.concatenate([x, state.hidden]) @ arrays[f"{name}/W_0"] + arrays[f"{name}/B"]
    )
    entered, new, forgotten, shown = np.split(gates, 4)
    memory = sigmoid(entered) * np.tanh(new) + sigmoid(forgotten + 1) * state.cell
    cell = clipped(memory, lstm.get("cell_clip"))
    hidden = sigmoid(shown) * np.tanh(cell)
    if f"{name}/W_P_0" in arrays:
        hidden = hidden @ arrays[f"{name}/W_P_0"]
    return CellState(clipped(hidden, lstm.get("proj_clip")), cell)


def run_direction(
    vectors: Sequence[Array],
    direction: int,
    state: State,
    options: Options,
    arrays: Arrays,
) -> tuple[list[list[Array]], list[CellState]]:
    """Return the outputs of each layer of one stack, in the order of the sentence."""
    inputs = list(vectors) if direction == FORWARD else list(vectors)[::-1]
    layers = []
    ended = []
    for layer in range(options["lstm"].get("n_layers", 1)):
        current = state[layer][direction]
        outputs = []
        for x in inputs:
            current = lstm_step(x, current, direction, layer, options, arrays)
            residual = options["lstm"].get("use_skip_connections", False) and layer > 0
            outputs.append(current.hidden + x if residual else current.hidden)
        layers.append(outputs if direction == FORWARD else outputs[::-1])
        ended.append(current)
        inputs = outputs
    return layers, ended


def bilm(
    sentence: Sequence[str],
    options: Options,
    arrays: Arrays,
    words: Sequence[str] | None = None,
    state: State | None = None,
) -> tuple[Array, State]:
    """Return all layers of one sentence, boundaries included, and its final states.

    The layers have the shape (1 + n_layers, T + 2, 2 P).
    """
    start = zero_state(options) if state is None else state
    vectors = [
        token_vector(token, options, arrays, words)
        for token in ["<S>", *sentence, "</S>"]
    ]
    ahead, ahead_ended = run_direction(vectors, FORWARD, start, options, arrays)
    behind, behind_ended = run_direction(vectors, BACKWARD, start, options, arrays)
    layers = [[np.concatenate([vector, vector]) for vector in vectors]]
    for forward, backward in zip(ahead, behind, strict=True):
        layers.append(
            [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
        )
    return np.array(layers), list(zip(ahead_ended, behind_ended, strict=True))


# Language model


def log_probabilities(context: Array, weight: Array, bias: Array) -> Array:
    """Return the log probability of every word, (V,), in a context, (P,)."""
    logits = weight @ context + bias
    shifted: Array = logits - logits.max()
    return shifted - math.log(np.exp(shifted).sum())


def model_predictions(
    folder: Path,
    sentence: Sequence[str],
    words: Sequence[str],
    state: State | None = None,
) -> tuple[Array, State]:
    """Return the log probability of every word at each step, and the states at the end.

    The model is in a folder, and `state` is as in `bilm`. The shape is (2, T + 1, V).
    Forward: after <S> and after each token. Backward: before each token and before
    </S>.
    """
    options = json.loads((folder / "options.json").read_text())
    softmax = read_arrays(folder / "softmax.hdf5")
    weight = softmax["softmax/W"]
    bias = softmax["softmax/b"]
    layers, ended = bilm(
        sentence, options, read_arrays(folder / "weights.hdf5"), words, state
    )
    forward, backward = np.split(layers[-1], 2, axis=1)
    contexts = [forward[:-1], backward[1:]]
    log_p = [
        [log_probabilities(row, weight, bias) for row in rows] for rows in contexts
    ]
    return np.array(log_p), ended


def model_scores(
    folder: Path,
    sentence: Sequence[str],
    words: Sequence[str],
    state: State | None = None,
) -> tuple[Array, State]:
    """Return the log probabilities of a sentence, (2, T + 1), and its final states.

    Forward: of each token and of </S>. Backward: of <S> and of each token.
    """
    log_p, ended = model_predictions(folder, sentence, words, state)
    bounded = ["<S>", *sentence, "</S>"]
    ids = [words.index(token if token in words else "<UNK>") for token in bounded]
    steps = range(len(sentence) + 1)
    forward = log_p[0, steps, ids[1:]]
    backward = log_p[1, steps, ids[:-1]]
    return np.array([forward, backward]), ended


# ELMo


def scalar_mix(
    layers: Array,
    weights: Sequence[float],
    gamma: float,
    mask: NDArray[Any] | None = None,
) -> Array:
    """Return gamma * sum of softmax(weights)[k] * layers[k].

    Layers have the shape (L, B, T, W). With a mask, shape (B, T), each is normalised
    first, by the mean and the variance of all its values under the mask.
    """
    exponentials = np.exp(weights)
    mixed = np.zeros(layers.shape[1:])
    for layer, exponential in zip(layers, exponentials, strict=True):
        values = layer
        if mask is not None:
            unmasked = layer[mask.astype(bool)]
            values = (layer - unmasked.mean()) / math.sqrt(unmasked.var() + 1e-12)
        mixed += exponential / exponentials.sum() * values
    return gamma * mixed
