"""Time that commands with little computation take."""

import statistics
import sys

from process import alternate
from setting import Row, Setting

HELP_TIMES, COSINE_TIMES, COSINE_SECONDS = 2.0, 1.3, 0.3
SENTENCES = ["We sat on the bank of the river.", "She opened an account at the bank."]


def startup_rows(setting: Setting) -> list[Row]:
    """Compare `elmo --help` with `import click`, and `elmo cosine` with `import torch, h5py`."""
    python = [sys.executable, "-c"]
    elmo = [sys.executable, "-m", "elmo_cli"]
    commands = [
        [*python, "import click"],
        [*elmo, "--help"],
        [*python, "import torch, h5py"],
        [*elmo, "cosine", "--model", "mini", "bank", *SENTENCES],
    ]
    turns = alternate(commands, setting.repeats)
    click, help_, torch, cosine = map(statistics.median, turns)
    limit = COSINE_TIMES * torch + COSINE_SECONDS
    return [
        Row(
            "`elmo --help`",
            f"{HELP_TIMES:.0f} times `import click` ({HELP_TIMES * click:.2f} s)",
            f"{help_:.2f} s",
            help_ <= HELP_TIMES * click,
            {"import click": turns[0], "elmo --help": turns[1]},
        ),
        Row(
            "`elmo cosine` with the bundled model",
            f"{COSINE_TIMES} times `import torch, h5py` + {COSINE_SECONDS} s ({limit:.1f} s)",
            f"{cosine:.1f} s",
            cosine <= limit,
            {"import torch, h5py": turns[2], "elmo cosine": turns[3]},
        ),
    ]
