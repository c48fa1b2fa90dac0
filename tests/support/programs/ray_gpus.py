"""Print the devices on which workers of the cluster ADDRESS compute, one GPU each."""

import os
import sys
import time

from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.ray_engine import embed_on_ray
from elmo_cli.options.resources import ResourceSettings


def embed(part: Part, device: str) -> PartResult:
    """Return the device as the name of the worker."""
    time.sleep(0.5)
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    return PartResult(number=part.number, worker=f"{device} of {gpu}")


parts = [
    Part(number=number, first=number, path="", start=0, line=1, n_lines=1, n_records=1)
    for number in range(12)
]
resources = ResourceSettings(address=sys.argv[1], gpus_per_worker=1)
results = [each for each in embed_on_ray(parts, embed, resources) if each is not None]
print(*sorted({each.worker for each in results}), sep="; ")
