"""Batches to trained weights: a run, step after step, that stops and resumes.

All that a step needs beyond the weights is known from its number and the place in the
text: random numbers are seeded anew for each step. So a run that resumes from a
checkpoint is the run that was never stopped, to the bit on one machine's CPU. A checkpoint is one
file, whole or not at all, whatever ends the process.

Several processes may train one model, as `torchrun` starts them. Each has its share of every
batch; gradients are averaged over all. Nothing may keep the group of processes beyond its end:
its threads let go of tensors some time after they were summed, for which they need Python, and
where it ends meanwhile they abort the process. Torch's `DistributedDataParallel` keeps the
group, so it must go first: see `Run.close`.
"""

import gc
import hashlib
import os
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmo_cli.atomic import lock, replaced, unlock
from elmo_cli.errors import ElmoError, ModelError, OutputError, first_line, system_reason
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.model.bilm import BiLmState, map_state, state_tensors
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.pretrained.model_files import candidates
from elmo_cli.training.corpus import Position, Row, make_batch, n_steps, n_tokens
from elmo_cli.training.loss import Objective, Samples, draw_words
from elmo_cli.training.options import RUN_LENGTH, TrainingOptions, shown

CHECKPOINT = "checkpoint.pt"
LOCK = ".lock"


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The state of a folder's checkpoint, on the CPU; None where there is none.

    Nothing but tensors, numbers and text is read: a checkpoint cannot run code.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(f"wrong checksum of {broken}")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if "identity" not in state:
            raise pickle.UnpicklingError("not of a run")
        return state
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise ModelError(
            f"{path}: the checkpoint is damaged ({first_line(error)}); name another folder, or "
            f"remove {folder} to train from the start"
        ) from None


def check_same_run(
    state: Mapping[str, Any], identity: Mapping[str, Any], options: TrainingOptions, folder: Path
) -> None:
    """Make sure that a checkpoint is of this run, but for its length."""
    changed = [name for name in identity if state["identity"].get(name) != identity[name]]
    settings = {
        name: value
        for name, value in state["options"].items()
        if name not in RUN_LENGTH and value != getattr(options, name, None)
    }
    if changed or settings:
        found = f"another {' and '.join(changed)}" if changed else shown(settings)
        raise ModelError(
            f"{folder}: the run that was begun there has {found}; give the same command to resume "
            f"it, or another folder and --init-from {folder} for a new run"
        )


def save_checkpoint(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the checkpoint of a folder: tensors, numbers, text, and containers of them."""
    with replaced(folder / CHECKPOINT) as partial, open(partial, "xb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # of torch, while it handles that of the file
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of text, whole or not at all."""
    with replaced(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from training into it; no empty one stays."""
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder / LOCK)
    except BlockingIOError:
        raise OutputError(f"{folder}: another process trains into it") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {system_reason(error)}") from None
    try:
        # A model without its checkpoint would be lost.
        if not (folder / CHECKPOINT).exists() and (found := candidates(folder, "weights")):
            raise ModelError(
                f"{folder}: expected a new folder or one of a run, found {found[0].name} and no "
                f"{CHECKPOINT}; name another folder, and --init-from {folder} to start from that "
                "model"
            )
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for path in made:
                path.rmdir()


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this one writes what is written once."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """The value of each process; it waits for all."""
        values: list[Any] = [value]
        if self.count > 1:
            values = [None] * self.count
            distributed.all_gather_object(values, value)
        return values


@contextmanager
def all_processes(name: Device) -> Iterator[Processes]:
    """This process with its device: alone, or as `torchrun` says, which gives each its GPU."""
    device = choose_device(name)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(device)
        return
    # Before there is a group: its default arguments would keep it.
    import torch.distributed.nn

    on_gpu = device.type == "cuda"
    if on_gpu:
        device = choose_device(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Processes(device, distributed.get_rank(), count)
    finally:
        distributed.destroy_process_group()


class Run:
    """A training run: all that changes from step to step."""

    def __init__(
        self,
        objective: Objective,
        vocabulary: Vocabulary,
        options: TrainingOptions,
        identity: Mapping[str, Any],
        processes: Processes,
        *,
        text_tokens: int | None = None,
    ) -> None:
        """Start a run of an identity, which must be the same for a checkpoint to fit.

        `text_tokens` are those of a pass over the text, where the length is in epochs.
        """
        self.vocabulary, self.options, self.processes = vocabulary, options, processes
        self._identity, self._text_tokens = identity, text_tokens
        self.objective = objective.to(processes.device).train()
        self._parameters = list(self.objective.parameters())
        self._parallel: nn.Module = self.objective
        if processes.count > 1:
            self._parallel = DistributedDataParallel(self.objective)
        self._optimizer = make_optimizer(self._parameters, options)
        self._own = slice(processes.rank, None, processes.count)  # the rows of this process
        self.step = 0
        self.n_tokens = 0
        self.learning_rate = 0.0
        """Of the last step."""
        self.seconds = 0.0
        self.position = Position()
        self._carried: BiLmState | None = None
        self._loss_sums = torch.zeros(3)  # forward, backward, predictions: since `take_loss`

    @property
    def progress(self) -> float:
        """The share of the run that is done, 0 to 1."""
        options = self.options
        if options.steps is not None:
            return min(1.0, self.step / options.steps)
        return min(1.0, self.n_tokens / max(1, options.epochs * (self._text_tokens or 0)))

    @property
    def is_done(self) -> bool:
        """Whether this was the last step."""
        if self.options.steps is not None:
            return self.step >= self.options.steps
        return self.position.epoch >= self.options.epochs

    def train_step(self, rows: Sequence[Row], position: Position) -> None:
        """One step of the optimizer; see `corpus.portions`."""
        options, processes = self.options, self.processes
        self.learning_rate = learning_rate(self.step, self.progress, options)
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        batch = make_batch(rows[self._own], self.vocabulary)
        torch.manual_seed(self._seed("dropout", processes.rank))
        autocast = options.precision == "bfloat16"
        with torch.autocast(processes.device.type, torch.bfloat16, enabled=autocast):
            forward, backward, state = self._parallel(batch, self._carried, self._draw())
        n_predictions = n_steps(rows)  # of all processes
        # Gradients are averaged over the processes, each of which has its share of the sum.
        weight = options.unroll if options.optimizer == "adagrad" else 1  # as bilm-tf's sum
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
        self.n_tokens += n_tokens(rows)
        self.position = position

    def _seed(self, purpose: str, rank: int = 0) -> int:
        """A seed for this step, which no other has."""
        text = f"{self.options.seed} {self.step} {purpose} {rank}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def _draw(self) -> Samples | None:
        """The words of this step's sampled softmax, the same in all processes."""
        n_words = len(self.vocabulary)
        if not 0 < self.options.negative_samples < n_words:
            return None
        generator = torch.Generator().manual_seed(self._seed("samples"))
        words, n_draws = draw_words(n_words, self.options.negative_samples, generator)
        return Samples(words.to(self.processes.device), n_draws)

    def take_loss(self) -> float:
        """The loss in training since the last call: nats a prediction, mean of both directions."""
        forward, backward, n_predictions = self.check_loss().tolist()
        self._loss_sums = torch.zeros(3)
        return float(0.5 * (forward + backward) / max(n_predictions, 1))

    def check_loss(self) -> Tensor:
        """Make sure that the loss is finite; all processes call it.

        Returns:
            Of all processes, since `take_loss`: the losses of both directions, and the
            predictions, float32, shape (3,).
        """
        sums = torch.stack(self.processes.gather(self._loss_sums)).sum(dim=0)
        if not sums.isfinite().all():
            raise ElmoError(
                f"step {self.step}: the loss is not finite, training has failed; try a lower "
                "learning rate in another folder, or resume from the last checkpoint"
            )
        return sums

    def close(self) -> None:
        """Let go of the group of processes, before it ends; there are no steps after it."""
        if self.processes.count > 1:
            self._parallel = self.objective
            gc.collect()

    def save(self, folder: Path) -> None:
        """Write the checkpoint, if the loss is finite; all processes call it."""
        tensors = [] if self._carried is None else state_tensors(self._carried)
        # Rows of all processes in turn, as each has taken its own.
        carried = self.processes.gather([values.cpu() for values in tensors])
        state = {
            "identity": self._identity,
            "options": asdict(self.options),
            "step": self.step,
            "n_tokens": self.n_tokens,
            "text_tokens": self._text_tokens,
            "seconds": self.seconds,
            "position": tuple(self.position),
            "loss_sums": self.check_loss(),
            "carried": [torch.stack(rows, 1).flatten(0, 1) for rows in zip(*carried, strict=True)],
            "objective": self.objective.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        if self.processes.is_first:
            save_checkpoint(folder, state)

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from what `load_checkpoint` gave."""
        self.step, self.n_tokens = state["step"], state["n_tokens"]
        self.seconds = state["seconds"]
        self.position = Position(*state["position"])
        self.objective.load_state_dict(state["objective"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self.processes.is_first:
            self._loss_sums = state["loss_sums"]
        if state["carried"]:
            values = iter([v[self._own].to(self.processes.device) for v in state["carried"]])
            zero = self.objective.bilm.initial_state(1)
            self._carried = map_state(zero, lambda _: next(values))


def make_optimizer(
    parameters: Sequence[nn.Parameter], options: TrainingOptions
) -> torch.optim.Optimizer:
    """AdamW, or Adagrad as published."""
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "adagrad":  # TensorFlow's: it starts with 1, so that steps are small
        return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0)
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)


def learning_rate(step: int, progress: float, options: TrainingOptions) -> float:
    """The learning rate after so many steps, which are a share of the run, 0 to 1.

    It rises over the first `warmup_steps`, but a tenth of the run at most, stays, and falls
    to 0 in a straight line over the last `decay_share` of the run.
    """
    share = 1.0
    if options.warmup_steps:
        share = min(1.0, max((step + 1) / options.warmup_steps, progress / 0.1))
    if options.decay_share:
        share = min(share, (1 - progress) / options.decay_share)
    return options.learning_rate * share
