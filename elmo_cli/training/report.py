"""What a run says of itself, in lines for people, JSON lines and TensorBoard, and of its model."""

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from elmo_cli.errors import OutputError, load_extra
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.language_model.softmax import write_softmax
from elmo_cli.model.weights import write_weights
from elmo_cli.text.lines import Sentence
from elmo_cli.text.tokenizers import read_sentences
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.run import Run, write_lines
from elmo_cli.training.start import Start
from elmo_cli.version import __version__

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""Between two lines for people."""


class Report:
    """What the first process writes into the folder of a run, its checkpoint aside."""

    def __init__(
        self,
        run: Run,
        folder: Path,
        start: Start,
        text: TrainingText,
        validation_file: str | Path | None,
        *,
        tensorboard: bool,
    ) -> None:
        """Open the log; entries of steps that will be done again are taken out."""
        self._run, self._folder, self._start, self._text = run, folder, start, text
        self._validation_file = validation_file
        self._said = time.monotonic()
        self._log = folder / "log.jsonl"
        if self._log.exists():
            *lines, _ = self._log.read_text(encoding="utf-8").split("\n")  # a kill cuts the last
            write_lines(self._log, (line for line in lines if json.loads(line)["step"] <= run.step))
        self._board = summary_writer()(str(folder / "tensorboard")) if tensorboard else None

    def note(self, loss: float) -> None:
        """Log the last step with the loss in training, and tell people now and then."""
        run, now = self._run, time.monotonic()
        speed = run.n_tokens / max(run.seconds, 1e-9)
        numbers = {
            "tokens": run.n_tokens,
            "progress": run.progress,
            "training_loss": loss,
            "learning_rate": run.learning_rate,
            "tokens_per_second": speed,
            "seconds": run.seconds,
        }
        self._write(numbers)
        if now - self._said >= LOG_SECONDS:
            self._said = now
            left = timedelta(seconds=round(run.seconds * (1 / max(run.progress, 1e-9) - 1)))
            logger.info(
                "step %d, %.1f %%, %.2fM tokens, training loss %.3f, %s tokens/s, %s left",
                *(run.step, 100 * run.progress, run.n_tokens / 1e6, loss, f"{speed:,.0f}", left),
            )

    def evaluate(self, max_tokens: float = float("inf")) -> dict[str, float] | None:
        """Write the model, and measure the perplexity of the first tokens of the validation text.

        Returns:
            `forward`, `backward`, `average`, exp of the mean of both directions' losses,
            `<UNK>` counted as a word; `tokens`, and their share that is `unknown`. None
            without a text.
        """
        run, path, perplexity = self._run, self._validation_file, None
        self._write_model()
        if path is not None:
            model = LanguageModel(model=self._folder, device=run.processes.device)
            sentences = read_sentences(path, self._text.tokenizer)
            found = measure_perplexity(model, _first_tokens(sentences, max_tokens))
            perplexity = asdict(found.all_words)
            logger.info(
                "step %d, validation perplexity %.2f (forward %.2f, backward %.2f) on %s tokens",
                *(run.step, perplexity["average"], perplexity["forward"], perplexity["backward"]),
                f"{found.tokens:,}",
            )
            perplexity |= {"tokens": found.tokens, "unknown": found.unknown}
            self._write(perplexity, "validation")
        self._write_card(perplexity)
        return perplexity

    def close(self) -> None:
        """Write what is not written yet."""
        if self._board is not None:
            self._board.close()

    def _write(self, numbers: Mapping[str, float], heading: str | None = None) -> None:
        """Log numbers of the last step."""
        entry = numbers if heading is None else {heading: numbers}
        try:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": self._run.step, **entry}) + "\n")
        except OSError as error:
            raise OutputError(f"{self._log}: cannot be written: {error.strerror}") from None
        if self._board is not None:
            for name, value in numbers.items():
                tag = f"{heading}/{name}" if heading else name
                self._board.add_scalar(tag, value, self._run.step)

    def _write_model(self) -> None:
        """Write the folder that `--model` takes."""
        run, folder, content = self._run, self._folder, self._start.content
        # AllenNLP wants every key to be there.
        lstm = {"cell_clip": None, "proj_clip": None, "use_skip_connections": False}
        written: dict[str, Any] = {"lstm": {**lstm, **content["lstm"]}}
        if content.get("char_cnn") is not None:
            # n_characters is 261 in bilm-tf's training, 262 where a model is used.
            char_cnn = {"max_characters_per_token": 50, **content["char_cnn"], "n_characters": 262}
            written["char_cnn"] = char_cnn
        written["training"] = {"state": run.options.state}
        write_lines(folder / "options.json", [json.dumps(written, indent=1)])
        write_weights(folder / "weights.hdf5", run.objective.bilm)
        write_lines(folder / "vocab.txt", run.vocabulary.words)
        weight, bias = (p.detach().cpu().numpy() for p in run.objective.softmax.parameters())
        write_softmax(folder / "softmax.hdf5", weight, bias)

    def _write_card(self, perplexity: dict[str, float] | None) -> None:
        """Write how the model was made and how good it is, for people and programs."""
        run, folder = self._run, self._folder
        record = {
            "text": [str(path) for path in self._text.paths],
            "tokenizer": self._text.tokenizer.settings(),
            "init_from": self._start.name,
            "init_from_weights": self._start.files is not None,
            "options": asdict(run.options),
            "step": run.step,
            "tokens": run.n_tokens,
            "seconds": run.seconds,
            "validation_file": self._validation_file and str(self._validation_file),
            "perplexity": perplexity,
        }
        write_lines(folder / "training.json", [json.dumps(record, indent=1)])
        write_lines(folder / "card.md", _card(record, len(run.vocabulary)))


def _first_tokens(sentences: Iterable[Sentence], max_tokens: float) -> Iterator[Sentence]:
    """The first sentences of a text, until they have so many tokens."""
    for sentence in sentences:
        yield sentence
        max_tokens -= len(sentence)
        if max_tokens <= 0:
            return


def summary_writer() -> Any:
    """The class that writes for TensorBoard; an `ElmoError` where it is not installed."""
    return load_extra("TensorBoard", "torch.utils.tensorboard", "tensorboard").SummaryWriter


def _card(record: Mapping[str, Any], n_words: int) -> Iterator[str]:
    """The lines of the card, in Markdown, from what training.json says."""
    yield "# A model trained with elmo train"
    yield ""
    found = record["perplexity"]
    if found is None:
        yield "There was no validation text, so how good it is was not measured."
    else:
        yield (
            f"Perplexity on {found['tokens']:,} tokens of validation text "
            f"(`{record['validation_file']}`), full softmax, {100 * found['unknown']:.1f} % of the "
            f"tokens unknown and counted as `<UNK>`: **forward {found['forward']:.2f}, backward "
            f"{found['backward']:.2f}, average {found['average']:.2f}**. It can only be compared "
            "with figures for the same text and vocabulary."
        )
    start = "" if record["init_from_weights"] else "random weights, architecture of "
    rows = {
        "made": f"{time.strftime('%Y-%m-%d')}, by elmo-cli {__version__}",
        "started from": f"{start}{record['init_from']}",
        "text": ", ".join(f"`{path}`" for path in record["text"]),
        **record["tokenizer"],
        "words to predict": f"{n_words:,}",
        "trained on": f"{record['tokens']:,} tokens in {record['step']:,} steps, "
        f"{timedelta(seconds=round(record['seconds']))}",
        **record["options"],
    }
    yield from ("", "| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in rows.items())
