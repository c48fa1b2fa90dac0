"""Perplexity of an n-gram model, to compare with the forward perplexity of a biLM.

    evaluation/make_kenlm.sh KENLM
    python kneser_ney.py KENLM TRAIN HELDOUT VOCABULARY [--distinct] [--order 5]

The model has interpolated modified Kneser-Ney smoothing, by kenlm. Train it on the text
of the biLM. As in `elmo perplexity`, words outside of the vocabulary are one word,
`<UNK>`, and every token and the end of each sentence is predicted, so that the two
figures can be compared. Kneser-Ney's discounts come from counts of counts, which
repeated sentences distort. `--distinct` trains on each sentence once.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import numpy as np

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

from evaluation.token_style import read_sentences

UNKNOWN = "@unknown@"
"""Word that replaces `<UNK>` for kenlm, whose own `<UNK>` has no counts."""
RESERVED = {"<s>", "</s>", "<unk>", "<UNK>"}
"""Words that kenlm refuses or gives another meaning."""


def main() -> None:
    """Train a model, score the held-out text and print the perplexities."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "kenlm", type=Path, help="folder of the programs lmplz and query"
    )
    parser.add_argument("train", type=Path)
    parser.add_argument("heldout", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument(
        "--distinct", action="store_true", help="train on each sentence once"
    )
    parser.add_argument("--memory", default="2G", help="memory of lmplz; default 2G")
    options = parser.parse_args()
    for program in ("lmplz", "query"):
        if not (options.kenlm / program).is_file():
            raise SystemExit(
                f"{options.kenlm}: {program} is missing. make_kenlm.sh builds it."
            )
    vocabulary = set(options.vocabulary.read_text(encoding="utf-8").splitlines())
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model.arpa"
        sentences = read_sentences(options.train)
        train(
            options,
            mapped_lines(sentences, vocabulary, distinct=options.distinct),
            model,
        )
        heldout = list(mapped_lines(read_sentences(options.heldout), vocabulary))
        figures = perplexities(heldout, query(options.kenlm, model, heldout))
    settings = {"order": options.order, "distinct": options.distinct}
    print(json.dumps({**settings, **figures}))


def mapped_lines(
    sentences: Iterable[list[str]],
    vocabulary: Container[str],
    *,
    distinct: bool = False,
) -> Iterator[str]:
    """Yield one line for kenlm per sentence with tokens; each once if `distinct`."""
    seen: set[int] = set()
    for sentence in sentences:
        line = " ".join(
            token if token in vocabulary and token not in RESERVED else UNKNOWN
            for token in sentence
        )
        key = hash(" ".join(sentence))  # 64 bits take less memory than a line.
        if line and not (distinct and key in seen):
            seen.add(key)
            yield line


def train(options: argparse.Namespace, lines: Iterable[str], model: Path) -> None:
    """Train a model with lmplz."""
    command = [
        str(options.kenlm / "lmplz"),
        "-o",
        str(options.order),
        "-S",
        options.memory,
    ]
    command += ["-T", str(model.parent), "--arpa", str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        process.stdin.writelines(f"{line}\n" for line in lines)
        process.stdin.close()
    if process.returncode != 0:
        raise SystemExit(f"lmplz: exit status {process.returncode}")


def query(kenlm: Path, model: Path, lines: list[str]) -> list[str]:
    """Return kenlm's answer to each line: its words and a total, between tabs."""
    done = subprocess.run(
        [str(kenlm / "query"), "-v", "word", "-v", "sentence", str(model)],
        input="".join(f"{line}\n" for line in lines),
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.removesuffix("\n").split("\n")


def perplexities(lines: list[str], answers: list[str]) -> dict[str, float]:
    """Compute the perplexities from the answers of query.

    Args:
        lines: The lines, with `UNKNOWN` for unknown words.
        answers: For each line, `word=id length log10_probability` for each word and
            `</s>`, and a total, which is ignored.
    """
    logs = []
    flags = []
    for line, answer in zip(lines, answers, strict=True):
        words = [*line.split(" "), "</s>"]
        fields = answer.split("\t")[:-1]
        for word, field in zip(words, fields, strict=True):
            name, _, value = field.rsplit(" ", 2)
            if not name.startswith(f"{word}="):
                raise ValueError(f"expected {word!r}, found {field!r}")
            logs.append(float(value))
            flags.append(word != UNKNOWN)
    log10 = np.array(logs)
    is_known = np.array(flags)
    return {
        "perplexity": float(10 ** -log10.mean()),
        "known_words_perplexity": float(10 ** -log10[is_known].mean()),
        "predictions": len(log10),
        "unknown": float((~is_known).sum() / (len(log10) - len(lines))),
    }


if __name__ == "__main__":
    main()
