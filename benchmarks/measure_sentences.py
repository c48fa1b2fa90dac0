"""Time `embed_sentence`, one sentence at a time, as `allennlp_elmo.py sentence` does.

python measure_sentences.py --options-file=O --weight-file=W INPUT --repeat 5
"""

import argparse
import json
import statistics
import time
from pathlib import Path


def main() -> None:
    """Load, embed each line, and print the median as one JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--options-file", required=True)
    parser.add_argument("--weight-file", required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("input", type=Path)
    arguments = parser.parse_args()

    from elmo_cli import ElmoEmbedder

    embedder = ElmoEmbedder(arguments.options_file, arguments.weight_file)
    sentences = [line.split() for line in arguments.input.read_text("utf-8").splitlines()]
    seconds = []
    for sentence in sentences * arguments.repeat:
        started = time.perf_counter()
        embedder.embed_sentence(sentence)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"sentence_seconds": statistics.median(seconds)}))


if __name__ == "__main__":
    main()
