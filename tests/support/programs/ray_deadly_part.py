"""Embed text.txt on the cluster ADDRESS with MODEL. The third part kills its workers.

Prints the parts that failed.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.plan import CorpusSettings, open_plan
from elmo_cli.distributed.ray_engine import embed_on_ray
from elmo_cli.distributed.workers import run_parts
from elmo_cli.files.shared_folder import Folder
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.resources import ResourceSettings


def embed_or_die(embed: Any, part: Part, device: str) -> PartResult:
    """Embed a part. The third one kills the process."""
    if part.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    result: PartResult = embed(part, device)
    return result


def run_on_workers(parts: Sequence[Part], embed: Any) -> Iterator[PartResult | None]:
    """Embed parts by one worker at a time, of which each part may kill two."""
    resources = ResourceSettings(address=sys.argv[1], workers=1, attempts=2)
    return embed_on_ray(parts, partial(embed_or_die, embed), resources)


settings = CorpusSettings(ModelSettings(sys.argv[2]))
folder = Folder("out")
plan = open_plan(folder, ("text.txt",), settings, part_mb=0.02)
print(run_parts(folder, plan, settings, run_on_workers).failed)
