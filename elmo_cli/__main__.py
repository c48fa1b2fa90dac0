"""The command `elmo`, which is also `python -m elmo_cli`."""

import gc
import os
import signal

SPIN_COUNT = "20000"
"""Turns of a loop in which an idle thread of GNU OpenMP waits for work before it sleeps.

By itself it spins for milliseconds, and takes a core from whatever else runs: see
docs/performance.md, "Shared cores".
"""


def run() -> None:
    """Run the command of the command line; see `elmo_cli.cli`."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # Ctrl-C is not ignored, as with nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of an import
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # read when torch is imported
    # torch makes a million objects when it is imported, and none of them is garbage: looking
    # for some takes 0.3 s. `loading.collect_garbage` has the collector start.
    gc.disable()

    from elmo_cli.cli import main

    signal.signal(signal.SIGINT, handler)
    main(prog_name="elmo")


if __name__ == "__main__":
    run()
