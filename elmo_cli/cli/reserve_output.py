"""Lock of the output of a stream, from the start of a command on."""

import os
from pathlib import Path

import click

from elmo_cli.options.output import STANDARD_OUTPUT


def reserve_output(input_file: str, output_file: str) -> None:
    """Lock an output for this command, if its input is standard input or a pipe.

    Otherwise two commands could wait for their inputs, and one would fail much later.
    """
    is_stream = os.path.exists(input_file) and not os.path.isfile(input_file)
    if output_file == STANDARD_OUTPUT or not (input_file == "-" or is_stream):
        return
    # Imported here, because a help does not need them.
    from elmo_cli.files.locks import reserved
    from elmo_cli.files.output_checks import (
        check_output,
        is_written_error,
        output_error,
    )
    from elmo_cli.files.output_names import unfinished_paths

    check_output(output_file, may_exist=True)
    lock = unfinished_paths(Path(os.path.realpath(output_file))).lock
    try:
        click.get_current_context().with_resource(reserved(lock))
    except BlockingIOError:
        raise is_written_error(output_file) from None
    except OSError as error:
        raise output_error(Path(output_file), error) from error
