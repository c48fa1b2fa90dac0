"""Make the models and figures of this folder, with old versions of torch.

    python3.7 -m pip install torch==1.0.0 "numpy<1.20" && python3.7 make.py
    python3.7 -m pip install torch==1.7.1 && python3.7 make.py

Each version writes its own files. README.md says what they are. The classes have the
form and the modules of PyTorch's example word_language_model.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

FOLDER = Path(__file__).parent
WORDS = (FOLDER / "vocab.txt").read_text(encoding="utf-8").split()
UNKNOWN_WORDS = ["zyzzyva", "Paris", "<unk>", "THE"]


class RNNModel(nn.Module):
    """Embedding, LSTM and linear layer, with the names that all descendants keep."""

    def __init__(
        self, ninp: int, nhid: int, nlayers: int, tie_weights: bool = False
    ) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(len(WORDS), ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, len(WORDS))
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        # The logits and the gates must differ from word to word.
        for name, values in self.named_parameters():
            nn.init.normal_(values, std=0.5 if name.startswith("rnn") else 1)
        self.rnn_type = "LSTM"
        self.nhid = nhid
        self.nlayers = nlayers

    def forward(self, ids: Any, hidden: Any = None) -> Any:
        output, hidden = self.rnn(self.drop(self.encoder(ids)), hidden)
        return self.decoder(self.drop(output)), hidden


class Dictionary:
    def __init__(self) -> None:
        self.word2idx = {word: index for index, word in enumerate(WORDS)}
        self.idx2word = list(WORDS)


class Corpus:
    def __init__(self) -> None:
        self.dictionary = Dictionary()
        self.train = torch.arange(20)


# A pickle names these modules, as those of the example do.
RNNModel.__module__ = "model"
Dictionary.__module__ = "data"
Corpus.__module__ = "data"
sys.modules["model"] = sys.modules["__main__"]
sys.modules["data"] = sys.modules["__main__"]


def make_sentences() -> list[list[str]]:
    """Return sentences of 1 to 20 tokens, 1,000 or more in all."""
    numbers = random.Random(1)
    known = [word for word in WORDS if word not in ("<eos>", "<unk>")]
    sentences: list[list[str]] = []
    while sum(map(len, sentences)) < 1000:
        length = numbers.randint(1, 20)
        sentence = [
            numbers.choice(UNKNOWN_WORDS if numbers.random() < 0.1 else known)
            for _ in range(length)
        ]
        sentences.append(sentence)
    return sentences


def measure(model: RNNModel, sentences: list[list[str]], carried: bool) -> Any:
    """Return the surprisal of each token and of each `<eos>`, in bits.

    `<eos>` is the context of each first word. If `carried`, all sentences are one text.
    """
    index = {word: number for number, word in enumerate(WORDS)}
    unknown = index["<unk>"]
    bits = []
    hidden = None
    with torch.no_grad():
        for sentence in sentences:
            ids = [index["<eos>"]]
            ids += [index.get(word, unknown) for word in sentence]
            ids.append(index["<eos>"])
            read = torch.tensor(ids[:-1]).unsqueeze(1)
            logits, hidden = model(read, hidden if carried else None)
            log_p = torch.log_softmax(logits[:, 0], dim=-1)
            predicted = log_p[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
            bits.append(-predicted.numpy() / np.log(2))
    return np.concatenate(bits).astype(np.float32)


def reduce_as_0_3(parameter: Any, protocol: int) -> Any:
    """Return the pickle of a parameter as torch 0.3 wrote it: see Variable there."""
    state: Any = (parameter.requires_grad, False, OrderedDict())
    return nn.Parameter, (Data(parameter),), state


def reduce_as_0_4(parameter: Any, protocol: int) -> Any:
    """Return the pickle of a parameter as torch 0.4 wrote it."""
    return nn.Parameter, (Data(parameter, version=2), parameter.requires_grad)


class Data:
    """Tensor of a parameter, in the form of an old version."""

    def __init__(self, parameter: Any, version: int = 1) -> None:
        self.values = parameter.data
        self.version = version

    def __reduce__(self) -> Any:
        values = self.values
        arguments = (
            values.storage(),
            values.storage_offset(),
            tuple(values.size()),
            values.stride(),
        )
        if self.version == 1:
            return torch._utils._rebuild_tensor, arguments
        return torch._utils._rebuild_tensor_v2, (*arguments, False, OrderedDict())


def main() -> None:
    """Write the files of the running version of torch."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    sentences = make_sentences()
    if torch.__version__.startswith("1.0"):
        # The files have the source of all classes, and should not have its paths.
        serialization: Any = torch.serialization
        source_file = serialization.inspect.getsourcefile
        serialization.inspect.getsourcefile = lambda kind: Path(source_file(kind)).name
        lines = "".join(" ".join(sentence) + "\n" for sentence in sentences)
        (FOLDER / "sentences.txt").write_text(lines, encoding="utf-8")
        with open(str(FOLDER / "dictionary.pkl"), "wb") as file:
            pickle.dump(Dictionary(), file)
        torch.save(Corpus(), str(FOLDER / "corpus.pt"))
        tied = RNNModel(12, 12, 2, tie_weights=True).eval()
        torch.save(tied, str(FOLDER / "tied.pt"))
        narrow = RNNModel(6, 11, 1).eval()
        torch.save(narrow.state_dict(), str(FOLDER / "narrow.pt"))
        models = {"tied": tied, "narrow": narrow}
        serialization.location_tag = lambda storage: "cuda:0"
        serialization.normalize_storage_type = lambda kind: torch.cuda.FloatStorage
        for version, reduce in (("0.3", reduce_as_0_3), ("0.4", reduce_as_0_4)):
            parameter_class: Any = nn.Parameter
            parameter_class.__reduce_ex__ = reduce
            torch.save(tied, str(FOLDER / f"tied-as-{version}.pt"))
    else:
        wide = RNNModel(14, 9, 3).eval()
        torch.save(wide, str(FOLDER / "wide.pt"))
        models = {"wide": wide}
    for name, model in models.items():
        np.savez_compressed(
            str(FOLDER / f"{name}.npz"),
            fixed=measure(model, sentences, carried=False),
            carried=measure(model, sentences, carried=True),
            torch_version=torch.__version__,
        )


main()
