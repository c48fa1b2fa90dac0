"""A run: batches to trained weights, step after step, in one process or several.

All that a step needs beyond the weights follows from its number and the progress in the text:
each step seeds its random numbers itself. A run that resumes from a checkpoint therefore gives
the same bits as a run that was never stopped, on the CPU of one machine.

`torchrun` starts several processes that train one model together. Each one takes its share of every
batch, and gradients are averaged over all processes. Nothing may keep the group of processes beyond
its end: its threads release tensors some time after they were summed, and abort the process if
Python has ended in the meantime. Torch's `DistributedDataParallel` keeps the group, so that it must
be released first: see `Run.close`.
"""

import gc
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.model.bilm import BiLmState, map_state, state_tensors
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.checkpoint import FORMAT, Checkpoint, Identity
from elmo_cli.training.corpus import (
    Row,
    TextProgress,
    count_predictions,
    count_tokens,
    make_batch,
)
from elmo_cli.training.loss import (
    Objective,
    Samples,
    draw_words,
    learning_rate_at,
    make_optimizer,
)
from elmo_cli.training.training_options import TrainingOptions

_T = TypeVar("_T")


@dataclass(frozen=True)
class Processes:
    """This process among all processes of a run."""

    device: torch.device
    rank: int = 0  # number of this process, from 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """True in the process that writes the files of the run."""
        return self.rank == 0

    @property
    def own_rows(self) -> slice:
        """Rows of a batch that this process computes."""
        return slice(self.rank, None, self.count)

    def gather(self, value: _T) -> list[_T]:
        """Return the value of each process. Wait for all processes."""
        if self.count == 1:
            return [value]
        values = [value] * self.count
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def join_processes(device: Device) -> Iterator[Processes]:
    """Join the processes that `torchrun` started, if any. Each of them gets a GPU of its own."""
    own_device = choose_device(device)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(own_device)
        return
    # This import must come before there is a group, because its default arguments would keep it.
    import torch.distributed.nn

    if (
        missing := {"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
        - os.environ.keys()
    ):
        problem = f"WORLD_SIZE is {count}, without {', '.join(sorted(missing))}"
        raise ElmoError(
            f"{problem}. Start all processes with torchrun, or unset WORLD_SIZE."
        )
    on_gpu = own_device.type == "cuda"
    if on_gpu:
        own_device = choose_device(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own_device)
    # Objects are gathered on the CPU, and wait while the first process measures a long text.
    backends = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    distributed.init_process_group(backends, timeout=timedelta(days=1))
    try:
        yield Processes(own_device, distributed.get_rank(), count)
    finally:
        distributed.destroy_process_group()


class Run:
    """A training run: the model, the optimizer, and all else that changes from step to step."""

    def __init__(
        self,
        objective: Objective,
        vocabulary: Vocabulary,
        options: TrainingOptions,
        processes: Processes,
        *,
        text_tokens: int | None = None,
    ) -> None:
        """Begin a run. A length in epochs requires `text_tokens`, the tokens per pass."""
        self.vocabulary, self.options, self.processes = vocabulary, options, processes
        self._text_tokens = text_tokens
        self.objective = objective.to(processes.device).train()
        self._parameters = list(self.objective.parameters())
        self._parallel: nn.Module = self.objective
        if processes.count > 1:
            self._parallel = DistributedDataParallel(self.objective)
        self._optimizer = make_optimizer(self._parameters, options)
        self.step = 0
        self.n_tokens = 0  # Tokens that the model was trained on.
        self.learning_rate = 0.0  # Rate of the last step.
        self.warmup_steps = 0  # Steps with a rising learning rate.
        self.seconds = 0.0  # Time of all steps.
        self.progress = TextProgress()
        self._carried: BiLmState | None = None
        self._loss_sums = torch.zeros(
            3
        )  # forward, backward, predictions since `take_loss`

    @property
    def share_done(self) -> float:
        """Share of the run that is done, 0 to 1."""
        options = self.options
        if options.steps is not None:
            return min(1.0, self.step / options.steps)
        return min(
            1.0, self.n_tokens / max(1, options.epochs * (self._text_tokens or 0))
        )

    @property
    def is_done(self) -> bool:
        """True after the last step."""
        if self.options.steps is not None:
            return self.step >= self.options.steps
        return self.progress.epoch >= self.options.epochs

    @exact_products()
    def train_step(self, rows: Sequence[Row], progress: TextProgress) -> None:
        """Train on one batch of `corpus.read_batches`, which yields the progress after it too."""
        options, processes = self.options, self.processes
        self.learning_rate, is_rising = learning_rate_at(
            self.step, self.share_done, options
        )
        self.warmup_steps += is_rising
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        batch = make_batch(rows[processes.own_rows], self.vocabulary)
        torch.manual_seed(self._seed("dropout", processes.rank))
        autocast = options.precision == "bfloat16"
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=autocast):
            forward, backward, state = self._parallel(
                batch, self._carried, self._draw_samples()
            )
        n_predictions = count_predictions(rows)  # in all processes
        # With Adagrad, the loss is summed over the block as in bilm-tf.
        weight = options.unroll if options.optimizer == "adagrad" else 1
        # Gradients are averaged over the processes, and each process has a share of the sum.
        scale = 0.5 * weight / n_predictions * processes.count
        self._optimizer.zero_grad()
        ((forward + backward) * scale).backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, options.max_grad_norm)
        self._optimizer.step()
        if options.state == "carry":
            self._carried = map_state(state, Tensor.float)
        losses = torch.stack([forward, backward]).tolist()
        self._loss_sums += torch.tensor([*losses, n_predictions / processes.count])
        self.step += 1
        self.n_tokens += count_tokens(rows)
        self.progress = progress

    def _seed(self, purpose: str, rank: int = 0) -> int:
        """Return a seed for one purpose in this step."""
        text = f"{self.options.seed} {self.step} {purpose} {rank}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _draw_samples(self) -> Samples | None:
        """Draw the words of this step's sampled softmax. All processes draw the same words."""
        n_words = len(self.vocabulary)
        if not 0 < self.options.negative_samples < n_words:
            return None
        generator = torch.Generator().manual_seed(self._seed("samples"))
        words, n_draws = draw_words(n_words, self.options.negative_samples, generator)
        return Samples(words.to(self.processes.device), n_draws)

    def take_loss(self) -> float:
        """Return the mean training loss since the last call, in nats; see `check_loss`."""
        forward, backward, n_predictions = self.check_loss().tolist()
        self._loss_sums = torch.zeros(3)
        return float(0.5 * (forward + backward) / max(n_predictions, 1))

    def check_loss(self) -> Tensor:
        """Return the sums of all processes since `take_loss`, float32, shape (3,).

        All processes must call this method. A loss that is not finite is an `ElmoError`.
        """
        sums = torch.stack(self.processes.gather(self._loss_sums)).sum(dim=0)
        if not sums.isfinite().all():
            raise ElmoError(
                f"step {self.step}: the loss is not finite, so training has failed. Try a lower "
                "--learning-rate in another folder, or resume from the last checkpoint."
            )
        return sums

    def close(self) -> None:
        """Release the group of processes before it ends. There are no steps afterwards."""
        if self.processes.count > 1:
            self._parallel = self.objective
            gc.collect()

    def make_checkpoint(self, identity: Identity) -> Checkpoint:
        """Return the content of a checkpoint. All processes must call this method."""
        tensors = [] if self._carried is None else state_tensors(self._carried)
        # The rows of a batch go to the processes in turn, so that they are interleaved again here.
        carried = self.processes.gather([values.cpu() for values in tensors])
        return Checkpoint(
            format=FORMAT,
            identity=identity,
            words=self.vocabulary.words,
            options=asdict(self.options),
            step=self.step,
            n_tokens=self.n_tokens,
            warmup_steps=self.warmup_steps,
            text_tokens=self._text_tokens,
            seconds=self.seconds,
            progress=tuple(self.progress),
            loss_sums=self.check_loss(),
            carried=[
                torch.stack(rows, 1).flatten(0, 1)
                for rows in zip(*carried, strict=True)
            ],
            objective=self.objective.state_dict(),
            optimizer=self._optimizer.state_dict(),
        )

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint. Errors of Python mean that it does not fit the model."""
        old, new = checkpoint["objective"], self.objective.state_dict()
        if old.keys() != new.keys() or any(
            old[name].shape != new[name].shape for name in new
        ):
            raise ValueError("tensors of other shapes")
        if len(checkpoint["progress"]) != len(self.progress):
            raise ValueError("wrong number of fields of progress")
        self.step, self.n_tokens = checkpoint["step"], checkpoint["n_tokens"]
        self.seconds, self.warmup_steps = (
            checkpoint["seconds"],
            checkpoint["warmup_steps"],
        )
        self.progress = TextProgress(*checkpoint["progress"])
        self.objective.load_state_dict(old)
        self._optimizer.load_state_dict(checkpoint["optimizer"])
        if self.processes.is_first:
            self._loss_sums = checkpoint["loss_sums"]
        if checkpoint["carried"]:
            rows, device = self.processes.own_rows, self.processes.device
            tensors = iter(
                [values[rows].to(device) for values in checkpoint["carried"]]
            )
            zero = self.objective.bilm.initial_state(1)
            self._carried = map_state(zero, lambda _: next(tensors))
