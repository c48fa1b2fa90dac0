"""The command `elmo`, which is also `python -m elmo_cli`."""

import signal


def run() -> None:
    """Run the command of the command line; see `elmo_cli.cli`."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # Ctrl-C is not ignored, as with nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of an import

    from elmo_cli.cli import main

    signal.signal(signal.SIGINT, handler)
    main(prog_name="elmo")


if __name__ == "__main__":
    run()
