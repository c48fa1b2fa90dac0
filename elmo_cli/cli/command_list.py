"""List of the commands, and the import of one of them."""

from importlib import import_module
from typing import Final

import click

COMMAND_GROUPS: Final = {
    "Vectors": {
        "embed": "Embed a text, a table or a FASTA file.",
        "distribute": "Embed a large corpus with many workers.",
    },
    "Analysis": {
        "cosine": "Compare the vectors of a word in two sentences.",
        "occurrences": "Write the vectors of target words in a text.",
        "neighbours": "Search a corpus for similar occurrences of a word.",
        "plot": "Draw the occurrences of a word as points.",
        "word-vectors": "Write one vector per word.",
        "change": "Measure how much words changed between corpora.",
    },
    "Language models": {
        "perplexity": "Measure the perplexity of a text.",
        "surprisal": "Measure the surprisal of words.",
        "predict": "Predict the next word, the previous one or a missing one.",
        "train": "Train a model on text, or fine-tune one.",
    },
    "Models": {
        "models": "List the pretrained models.",
        "info": "Describe a model or this installation.",
        "download": "Download a published model.",
        "convert": "Convert weights to another format.",
    },
    "Help": {
        "help": "Show the help of a command, or of a topic such as layers.",
        "completion": "Print a shell-completion script.",
    },
}
"""Description of each command, by heading, common ones first.

The module of a command has its name, and is imported when the command runs, which
halves the time of `--help`.
"""
COMMANDS: Final = [name for group in COMMAND_GROUPS.values() for name in group]
"""Names of the commands."""
OTHER_NAMES: Final = {"neighbors": "neighbours"}
"""Other spellings of commands. No help shows them."""


def find_command(name: str) -> click.Command:
    """Return the command with a name in `COMMANDS`."""
    function = name.replace("-", "_")
    module = import_module(f"elmo_cli.cli.commands.{function}")
    command: click.Command = getattr(module, function)
    return command
