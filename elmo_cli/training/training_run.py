"""A run: batches to trained weights, step after step, in one process or several.

All that a step needs beyond the weights follows from its number and the progress in the
text: each step seeds its random numbers itself. A run that resumes from a checkpoint
therefore gives the same bits as a run that was never stopped, on the CPU of one
machine.
"""

import gc
import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.model.bilm import BiLmState, map_state, state_from, state_tensors
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.batches import Row, count_predictions, count_tokens, make_batch
from elmo_cli.training.checkpoint import FORMAT, TrainingCheckpoint
from elmo_cli.training.loss import SampledWords, draw_words
from elmo_cli.training.objective import Objective
from elmo_cli.training.optimizer import (
    learning_rate_at,
    load_optimizer,
    make_optimizer,
)
from elmo_cli.training.processes import Processes
from elmo_cli.training.signature import Identity
from elmo_cli.training.training_settings import TrainingSettings
from elmo_cli.training.training_text import TextProgress


class Run:
    """Training run: the model, the optimizer, and all else that steps change."""

    def __init__(
        self,
        objective: Objective,
        vocabulary: Vocabulary,
        settings: TrainingSettings,
        processes: Processes,
        *,
        text_tokens: int | None = None,
    ) -> None:
        """Begin a run. A length in epochs requires `text_tokens`, those per pass."""
        self.vocabulary = vocabulary
        self.settings = settings
        self.processes = processes
        self._text_tokens = text_tokens
        self.objective = objective.to(processes.device).train()
        self._parameters = list(self.objective.parameters())
        self._parallel: nn.Module = self.objective
        if processes.count > 1:
            self._parallel = DistributedDataParallel(self.objective)
        self._optimizer = make_optimizer(self._parameters, settings)
        self.step = 0
        self.n_tokens = 0  # tokens that the model was trained on
        self.learning_rate = 0.0  # rate of the last step
        self.warmup_steps = 0  # steps with a rising learning rate
        self.seconds = 0.0  # time of all steps
        self.progress = TextProgress()
        self._carried: BiLmState | None = None
        # forward, backward, predictions since `take_loss`
        self._loss_sums = torch.zeros(3)

    @property
    def share_done(self) -> float:
        """Share of the run that is done, 0 to 1."""
        settings = self.settings
        if settings.steps is not None:
            return min(1.0, self.step / settings.steps)
        n_tokens = 0
        if self._text_tokens is not None:
            n_tokens = settings.epochs * self._text_tokens
        return min(1.0, self.n_tokens / max(1, n_tokens))

    @property
    def is_done(self) -> bool:
        """True after the last step."""
        if self.settings.steps is not None:
            return self.step >= self.settings.steps
        return self.progress.epoch >= self.settings.epochs

    @exact_products()
    def train_step(self, rows: Sequence[Row], progress: TextProgress) -> None:
        """Train on one batch of `read_batches`, with the progress after it."""
        settings = self.settings
        processes = self.processes
        self._set_learning_rate()
        batch = make_batch(rows[processes.rows_of_process], self.vocabulary)
        torch.manual_seed(self._seed("dropout", processes.rank))
        autocast = settings.precision == "bfloat16"
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=autocast):
            forward, backward, state = self._parallel(
                batch, self._carried, self._draw_samples()
            )
        n_predictions = count_predictions(rows)  # in all processes
        # With Adagrad, the loss is summed over the block as in bilm-tf.
        weight = settings.unroll if settings.optimizer == "adagrad" else 1
        # Gradients are averaged over the processes, and each has a share of the sum.
        scale = 0.5 * weight / n_predictions * processes.count
        self._optimizer.zero_grad()
        ((forward + backward) * scale).backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, settings.max_grad_norm)
        self._optimizer.step()
        if settings.state == "carry":
            self._carried = map_state(state, Tensor.float)
        losses = torch.stack([forward, backward]).tolist()
        self._loss_sums += torch.tensor([*losses, n_predictions / processes.count])
        self.step += 1
        self.n_tokens += count_tokens(rows)
        self.progress = progress

    def _set_learning_rate(self) -> None:
        """Set the learning rate of the next step."""
        rate = learning_rate_at(self.step, self.share_done, self.settings)
        self.learning_rate = rate.value
        if rate.is_rising:
            self.warmup_steps += 1
        for group in self._optimizer.param_groups:
            group["lr"] = rate.value

    def _seed(self, purpose: str, rank: int = 0) -> int:
        """Return a seed for one purpose in this step."""
        text = f"{self.settings.seed} {self.step} {purpose} {rank}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _draw_samples(self) -> SampledWords | None:
        """Draw the words of this step's sampled softmax, the same in all processes."""
        n_words = len(self.vocabulary)
        n_samples = self.settings.negative_samples
        if n_samples == 0 or n_samples >= n_words:
            return None
        generator = torch.Generator().manual_seed(self._seed("samples"))
        words, n_draws = draw_words(n_words, n_samples, generator)
        return SampledWords(words.to(self.processes.device), n_draws)

    def take_loss(self) -> float:
        """Return the mean training loss since the last call, in nats.

        All processes must call this method.
        """
        loss = self.mean_loss()
        self._loss_sums = torch.zeros(3)
        return loss

    def mean_loss(self) -> float:
        """Return the mean training loss since `take_loss`, in nats.

        All processes must call this method.
        """
        forward, backward, n_predictions = self.gather_loss_sums().tolist()
        return float(0.5 * (forward + backward) / max(n_predictions, 1))

    def gather_loss_sums(self) -> Tensor:
        """Return the sums of all processes since `take_loss`, float32, shape (3,).

        All processes must call this method. A loss that is not finite is an
        `ElmoError`.
        """
        sums = torch.stack(self.processes.gather(self._loss_sums)).sum(dim=0)
        if not sums.isfinite().all():
            raise ElmoError(
                f"step {self.step}: the loss is not finite, so training has failed",
                remedy="Try a lower {--learning-rate} in another folder, or resume "
                "from the last checkpoint.",
            )
        return sums

    def close(self) -> None:
        """Release the group of processes before it ends. No steps follow."""
        if self.processes.count > 1:
            self._parallel = self.objective
            gc.collect()

    def make_checkpoint(self, identity: Identity) -> TrainingCheckpoint:
        """Return the content of a checkpoint. All processes must call this method."""
        return TrainingCheckpoint(
            format=FORMAT,
            identity=identity,
            words=self.vocabulary.words,
            options=asdict(self.settings),
            step=self.step,
            n_tokens=self.n_tokens,
            warmup_steps=self.warmup_steps,
            text_tokens=self._text_tokens,
            seconds=self.seconds,
            progress=tuple(self.progress),
            loss_sums=self.gather_loss_sums(),
            carried=self._gather_carried(),
            objective=self.objective.state_dict(),
            optimizer=self._optimizer.state_dict(),
        )

    def _gather_carried(self) -> list[Tensor]:
        """Return the tensors of the carried state, with the rows of all processes."""
        tensors = [] if self._carried is None else state_tensors(self._carried)
        gathered = self.processes.gather([values.cpu() for values in tensors])
        # The rows of a batch go to the processes in turn. Here they are interleaved
        # again.
        return [
            torch.stack(rows, 1).flatten(0, 1) for rows in zip(*gathered, strict=True)
        ]

    def resume(self, checkpoint: TrainingCheckpoint) -> None:
        """Continue from a checkpoint.

        Errors of Python mean that it does not fit the model.
        """
        old = checkpoint["objective"]
        new = self.objective.state_dict()
        shapes = {name: values.shape for name, values in new.items()}
        if {name: values.shape for name, values in old.items()} != shapes:
            raise ValueError("tensors of other shapes")
        for name in ("step", "n_tokens", "warmup_steps"):
            if checkpoint[name] < 0:
                raise ValueError(f"negative {name}")
        if not 0 <= checkpoint["seconds"] < math.inf:  # NaN is not, either.
            raise ValueError("seconds are not a time")
        progress = TextProgress.read(checkpoint["progress"])
        if len(progress.streams) not in (0, self.settings.batch_size):
            raise ValueError("another number of streams")
        if checkpoint["loss_sums"].shape != self._loss_sums.shape:
            raise ValueError("loss_sums of another shape")
        n_carried = self.settings.batch_size if self.settings.state == "carry" else 0
        if any(len(values) != n_carried for values in checkpoint["carried"]):
            raise ValueError("a carried state of another size")
        self.step = checkpoint["step"]
        self.n_tokens = checkpoint["n_tokens"]
        self.seconds = checkpoint["seconds"]
        self.warmup_steps = checkpoint["warmup_steps"]
        self.progress = progress
        self.objective.load_state_dict(old)
        load_optimizer(self._optimizer, checkpoint["optimizer"])
        if self.processes.is_first:
            self._loss_sums = checkpoint["loss_sums"]
        if checkpoint["carried"]:
            rows = self.processes.rows_of_process
            device = self.processes.device
            self._carried = state_from(
                values[rows].to(device) for values in checkpoint["carried"]
            )
