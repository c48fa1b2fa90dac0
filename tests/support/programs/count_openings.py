"""Print how often `elmo embed` opens the input of each COMMAND: `INPUT OUTPUT ...`."""

import sys

from click.testing import CliRunner

from elmo_cli.cli.main import main

counts: list[int] = []
path = ""


def count(event: str, arguments: tuple[object, ...]) -> None:
    """Count the openings of the current input."""
    if event == "open" and str(arguments[0]) == path:
        counts[-1] += 1


sys.addaudithook(count)
for command in sys.argv[1:]:
    path, *rest = command.split()
    counts.append(0)
    result = CliRunner().invoke(main, ["embed", path, *rest, "--model", "model"])
    assert result.exit_code == 0, result.output
print(*counts)
