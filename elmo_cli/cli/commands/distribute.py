"""`elmo distribute`: a corpus to a folder of Parquet parts, by many workers."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.options import choice, count, flag, option
from elmo_cli.errors.exceptions import StoppedError
from elmo_cli.errors.wording import counted
from elmo_cli.files.json_form import json_text
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.resources import Resources
from elmo_cli.options.selection import Selection
from elmo_cli.options.text import TextSettings

if TYPE_CHECKING:
    from elmo_cli.distributed.workers import RunCounts, Workers


_ray_option = partial(option, requires="--engine ray")


_ray_count = partial(count, requires="--engine ray")


_POSITIVE = click.FloatRange(min=0, min_open=True)


@command()
@click.argument("arguments", metavar="INPUT... FOLDER", type=options.PATH, nargs=-1)
@option_group(
    "Workers",
    choice(
        "--engine",
        ["ray", "none"],
        default="ray",
        help="Run the workers with Ray, or compute in this process (none).",
    ),
    _ray_option(
        "--address",
        metavar="HOST:PORT",
        help="Address of a Ray cluster, or auto. [default: RAY_ADDRESS, else this machine]",
    ),
    _ray_count(
        "--workers",
        help="Maximum number of workers. [default: as many as fit into the cluster]",
    ),
    _ray_option(
        "--cpus-per-worker",
        type=_POSITIVE,
        default=1,
        metavar="C",
        help="CPUs and threads per worker.",
    ),
    _ray_option(
        "--gpus-per-worker",
        type=click.FloatRange(min=0),
        default=0,
        metavar="G",
        help="GPUs per worker; 0.5 runs two workers on each GPU.",
    ),
    _ray_count("--attempts", default=5, help="Give up a part after N worker deaths."),
    option(
        "--shard",
        metavar="I/N",
        requires="--engine none",
        help="With --engine none, embed every N-th part, beginning with the I-th.",
    ),
    flag("--status", help="Only print the missing and failed parts of FOLDER."),
    flag("--json", "as_json", requires="--status", help="Print the status as JSON."),
)
@option_group(
    "Input",
    choice(
        "--input-format",
        ["text", "fasta", "jsonl", "parquet"],
        metavar="FORMAT",
        help="text, fasta, jsonl or parquet. [default: by suffix]",
    ),
    options.text_column_option(),
    options.splitting_options(options.BY_INPUT),
    options.id_column_option(aliases=("--key-column",)),
    options.keep_columns_option,
    flag(
        "--skip-errors",
        help="Leave the output of a record empty if it cannot be read or computed.",
    ),
)
@options.model_options
@options.selection_options
@option_group(
    "Output",
    option(
        "--part-size",
        type=_POSITIVE,
        metavar="MB",
        help="Approximate size of a part before compression. [default: 1000 MB or a million "
        "tokens, whichever is smaller]",
    ),
    options.output_option("FOLDER"),
)
@option_group(
    "Speed",
    options.device_option(requires="--engine none"),
    options.precision_option,
    options.batch_tokens_option,
)
def distribute(
    arguments: tuple[str, ...],
    engine: str,
    status: bool,
    as_json: bool,
    dtype: str,
    part_size: float | None,
    resources: Resources,
    model_settings: ModelSettings,
    text_settings: TextSettings,
    selection: Selection,
) -> None:
    """Embed every INPUT with many workers, and write Parquet files to FOLDER.

    INPUT is a text with one sentence per line, FASTA, JSON lines or Parquet: a path, a
    pattern or a URI such as s3://bucket/text/*.parquet. Lines are numbered across all inputs.
    FOLDER is a path that all workers can access, or a URI. To resume after an interruption,
    give the same command again; other options need another FOLDER. When FOLDER is complete,
    it contains the file _SUCCESS. If parts are missing at the end, the exit status is 1.
    `open_activations` reads FOLDER as one file. Without a terminal, progress is printed every
    30 seconds.

    \b
    $ elmo distribute corpus.txt vectors --layers average --dtype float16
    $ elmo distribute corpus.txt vectors --address auto --workers 100 --gpus-per-worker 1
    $ elmo distribute corpus.txt vectors --engine none --shard 3/16
    $ elmo distribute --status vectors
    """
    *inputs, folder = arguments
    if status:
        _print_status(folder, as_json=as_json)
        return
    if not inputs:
        raise click.UsageError(
            "give INPUT... FOLDER, as in `elmo distribute corpus.txt vectors`"
        )

    with (
        messages.stop_on_signal() as should_stop
    ):  # Importing torch and Ray takes seconds.
        from elmo_cli.distributed.plan import CorpusSettings, open_plan
        from elmo_cli.distributed.workers import run_parts
        from elmo_cli.files.folder import Folder
        from elmo_cli.options.shard import WHOLE

        shard = text_settings.parse_shard() or WHOLE
        workers = _workers(engine, resources)
    if should_stop():
        raise StoppedError("Stopped before the first part.")
    tokenizer = loading.load_tokenizer(text_settings, model_settings, inputs[0])
    # Workers share the tokenizer by its full name, and each has its own device and part.
    text = replace(text_settings, tokenizer=tokenizer.name, language=None, shard=None)
    loading.find_files(
        model_settings
    )  # A wrong model is an error before there is a folder.
    settings = CorpusSettings(model_settings, text, selection, dtype).for_workers()
    parts = Folder(folder)
    plan = open_plan(parts, tuple(inputs), settings, part_mb=part_size)
    run, device = (
        partial(run_parts, parts, plan, settings, workers),
        str(model_settings.device),
    )
    with messages.stop_on_signal() as should_stop, messages.progress_bar("part") as bar:
        show = (
            messages.part_lines(folder)
            if bar.disable
            else partial(messages.show_parts, bar)
        )
        counts = run(
            device=device, shard=shard, on_progress=show, should_stop=should_stop
        )
    _say_end(folder, counts, is_shard=shard != WHOLE)


def _print_status(folder: str, *, as_json: bool) -> None:
    from elmo_cli.distributed.workers import read_status
    from elmo_cli.files.folder import Folder

    status, (first, *rest) = read_status(Folder(folder))
    lines = [f"{folder}: {first}", *rest]
    click.echo(json_text({"folder": folder, **status}) if as_json else "\n".join(lines))
    if not status["complete"]:
        click.get_current_context().exit(1)


def _workers(engine: str, resources: Resources) -> "Workers | None":
    """Return the engine, or None for this process."""
    if engine == "none":
        return None
    from elmo_cli.distributed.ray_engine import embed_on_ray, load_ray

    load_ray()  # Ray may be missing, which is an error before anything is read.
    return partial(embed_on_ray, resources=resources)


def _say_end(folder: str, counts: "RunCounts", *, is_shard: bool) -> None:
    speed = (
        f"{counted(counts.n_tokens, 'token')}, {counts.tokens_per_second:,.0f} tokens/s"
    )
    done = f"{counts.n_done:,} of {counted(counts.n_parts, 'part')}"
    messages.say(f"Wrote {folder}: {done}, {speed}")
    if counts.failed or (counts.n_done < counts.n_parts and not is_shard):
        missing = f"{counted(counts.n_parts - counts.n_done, 'part')} missing"
        remedy = "Give the same command to try again, or repair the input for another folder."
        raise click.ClickException(f"{folder}: {missing}. {remedy}")
