"""`python -m elmo_cli` is the command `elmo`."""

from elmo_cli.cli import main

main(prog_name="elmo")
