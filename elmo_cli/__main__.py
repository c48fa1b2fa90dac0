"""Entry point of the command `elmo` and of `python -m elmo_cli`."""

import gc
import os
import signal

SPIN_COUNT = "20000"
"""Number of turns that an idle thread of GNU OpenMP spins before it sleeps.

By default it spins for milliseconds, and occupies a core that other processes need.
"""


def run() -> None:
    """Run the command of the command line; see `elmo_cli.cli`."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # nohup ignores Ctrl-C, which stays so.
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # An import would print a traceback.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # torch reads it when it is imported.
    # Importing torch makes a million objects, none of which is garbage. Searching them takes
    # 0.3 s. `loading.collect_garbage` starts the collector.
    gc.disable()

    from elmo_cli.cli import main

    signal.signal(signal.SIGINT, handler)
    main(prog_name="elmo")


if __name__ == "__main__":
    run()
