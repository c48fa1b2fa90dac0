"""Everything about a run that is known before its first step."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.training.fingerprint import fingerprint_file
from elmo_cli.training.signature import Identity, Signature
from elmo_cli.training.start import Start
from elmo_cli.training.training_settings import TrainingSettings
from elmo_cli.training.training_text import TrainingText


@dataclass(frozen=True)
class Description:
    """Everything about a run that is known before its first step."""

    folder: Path
    start: Start
    training_text: TrainingText
    settings: TrainingSettings
    validation_file: str | Path | None

    @cached_property
    def signature(self) -> Signature:
        """Signature of the run. The files of its text are read at the first access."""
        start = self.start
        training_text = self.training_text
        identity: Identity = {
            "architecture": dict(start.content),
            "start_sha256": content_sha256(start.files) if start.files else None,
            "files": [fingerprint_file(path) for path in training_text.paths],
            "text": {
                "tokenizer": training_text.tokenizer.name,
                **training_text.tokenizer.to_attributes(),
                "validation_share": training_text.validation_share,
                "input_format": training_text.settings.input_format,
                "text_column": training_text.settings.text_column,
                **training_text.settings.cell_attributes,
            },
            "vocabulary_size": start.n_words,
        }
        words = start.vocabulary.words if start.vocabulary is not None else None
        return Signature(identity, options=asdict(self.settings), words=words)
