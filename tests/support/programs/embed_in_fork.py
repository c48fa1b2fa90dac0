"""Embed in a forked process while a thread of its parent computes.

Prints the exit status of the fork.
"""

import os
import threading
import warnings

import torch

from elmo_cli import Elmo, ElmoEmbedder, batch_to_ids
from elmo_cli.inference.one_thread import one_thread_at_a_time

warnings.simplefilter("ignore")
torch.set_num_threads(2)
sentences = [["the", "cat", "sat"], ["a", "dog", str(1.5)]] * 20
embedder = ElmoEmbedder()
expected = embedder.embed_batch(sentences)
in_bfloat16 = ElmoEmbedder(precision="bfloat16")
in_bfloat16.embed_batch(sentences)
elmo = Elmo()
ids = batch_to_ids([["the", "cat", "sat"]] * 40)
elmo(ids)

computes = threading.Event()
forked = threading.Event()


def compute() -> None:
    """Hold the only thread until the process is forked."""
    with one_thread_at_a_time():
        computes.set()
        forked.wait()


threading.Thread(target=compute).start()
computes.wait()
child = os.fork()  # The child does not have the thread that computes.
if child == 0:
    embedded = embedder.embed_batch(sentences)
    for vectors, values in zip(embedded, expected, strict=True):
        assert abs(vectors - values).max() < 1e-5
    in_bfloat16.embed_batch(sentences)
    elmo(ids)
    ElmoEmbedder().embed_sentence(["a"])  # Loading does not hang either.
    os._exit(0 if torch.get_num_threads() == 1 else 1)
forked.set()
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
assert torch.get_num_threads() == 2
