"""`elmo distribute`: a corpus to a folder of Parquet parts, by many workers."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import keep_tokenizer
from elmo_cli.cli.load_model import say_model, start_garbage_collector
from elmo_cli.cli.parameter_types import PATH, POSITIVE, NameChoice, Number, WholeNumber
from elmo_cli.cli.shared_options import choice, command_option, field_option, flag
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.cli.usage_errors import check_not_empty, missing_error
from elmo_cli.errors.exceptions import ElmoError, StoppedError
from elmo_cli.errors.wording import counted, listed, rate_text
from elmo_cli.files.json_form import json_text
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import Dtype
from elmo_cli.options.resources import ResourceSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import DISTRIBUTED_FORMATS, TextSettings

if TYPE_CHECKING:
    from elmo_cli.distributed.workers import RunCounts, RunOnWorkers

_WITH_RAY = [("--engine", "ray")]
_WITHOUT_RAY = [("--engine", "none")]


@command("distribute", "--status FOLDER")
@click.argument("arguments", metavar="INPUT... FOLDER", type=PATH, nargs=-1)
@option_group(
    "Workers",
    choice(
        "--engine",
        ["ray", "none"],
        default="ray",
        help="Run the workers with Ray (ray) or compute in this process (none).",
    ),
    field_option(ResourceSettings, "address", requires=_WITH_RAY),
    field_option(
        ResourceSettings,
        "workers",
        type=WholeNumber(1),
        metavar="N",
        requires=_WITH_RAY,
    ),
    field_option(
        ResourceSettings, "cpus_per_worker", type=POSITIVE, requires=_WITH_RAY
    ),
    field_option(
        ResourceSettings, "gpus_per_worker", type=Number(0), requires=_WITH_RAY
    ),
    field_option(
        ResourceSettings,
        "attempts",
        type=WholeNumber(1),
        metavar="N",
        requires=_WITH_RAY,
    ),
    field_option(
        TextSettings,
        "shard",
        requires=_WITHOUT_RAY,
        help="With --engine none, embed every N-th part, starting with the I-th.",
    ),
    flag(
        "--status",
        help="Only print how many parts of FOLDER are complete, and the others. INPUT, "
        "and options other than --json and --verify, are ignored.",
    ),
    flag("--json", "as_json", requires=["--status"], help="With --status, print JSON."),
    flag(
        "--verify",
        help="Read every complete part, which can take long, and embed damaged ones "
        "again. With --status, only print them.",
    ),
)
@shared_options.selection_options()
@option_group(
    "Output",
    shared_options.dtype_option(),
    shared_options.keep_columns_option(),
    shared_options.mix_options(),
    command_option(
        "--part-size",
        type=POSITIVE,
        metavar="MB",
        help="Approximate size of a part before compression.",
        default_text="1000 MB or a million tokens, whichever is smaller",
    ),
)
@option_group(
    "Input",
    shared_options.input_format_option(
        type=NameChoice(DISTRIBUTED_FORMATS),
        help=f"Format of the input: {listed(DISTRIBUTED_FORMATS, 'or')}.",
        default_text="from the suffix",
    ),
    shared_options.text_column_option(),
    shared_options.splitting_options(),
    shared_options.id_column_option(),
    field_option(TextSettings, "skip_errors"),
)
@shared_options.model_options(may_carry=False)
@option_group(
    "Speed",
    shared_options.device_option(
        requires=_WITHOUT_RAY,
        help="Device of --engine none: cpu, cuda, cuda:N or N, mps, or auto (a CUDA "
        "GPU if there is one). With Ray, use --gpus-per-worker.",
    ),
    shared_options.precision_option(),
    shared_options.batch_tokens_option(),
)
def distribute(
    arguments: tuple[str, ...],
    engine: str,
    status: bool,
    as_json: bool,
    verify: bool,
    dtype: Dtype,
    part_size: float | None,
    **values: Any,
) -> None:
    """Embed every INPUT with many workers and write Parquet files to FOLDER.

    \b
    $ elmo distribute corpus.txt vectors --layers average --dtype float16
    $ elmo distribute corpus.txt vectors --workers 64 --gpus-per-worker 1
    $ elmo distribute corpus.txt vectors --engine none --shard 3/16
    $ elmo distribute --status vectors
    $ elmo distribute --status --verify vectors

    INPUT is a text with one sentence per line, FASTA, JSON lines or Parquet: a path, a
    quoted pattern, or a URI such as s3://bucket/text/*.parquet. FOLDER is a path that
    all workers can access, or a URI. It gets Parquet files, called parts, with one row
    per sentence.

    Ray (`pip install "elmo-cli[ray]"`) runs the workers: on this machine, or with
    --address on a cluster. With --engine none, this process does the work alone, or a
    share of it with --shard. A worker or a shard computes whole parts. If there are
    fewer parts than workers, some have nothing to do: --status says how many parts
    there are, and a smaller --part-size gives more.

    To resume an interrupted run, or to try failed parts again, repeat the command. Only
    the options under Workers, --device and --batch-tokens may change; otherwise, choose
    another FOLDER. When all parts are complete, FOLDER contains the file _SUCCESS, and
    `open_activations` reads FOLDER like a file.
    """
    if not arguments:
        raise missing_error("FOLDER" if status else "INPUT")
    *inputs, folder = arguments
    check_not_empty(arguments, [*["INPUT"] * len(inputs), "FOLDER"])
    if status:
        _print_status(folder, as_json=as_json, verify=verify)
        return
    if not inputs:
        raise missing_error("FOLDER")
    model_settings = settings_from(ModelSettings, values)
    text_settings = settings_from(TextSettings, values)

    selection = settings_from(SelectionSettings, values)
    resources = None
    if engine == "ray":
        resources = settings_from(ResourceSettings, values)

    # Importing torch and Ray takes seconds.
    with stop_on_signal() as should_stop:
        from elmo_cli.distributed.plan import CorpusSettings, open_plan
        from elmo_cli.distributed.prepare_corpus import prepare_corpus
        from elmo_cli.distributed.workers import run_parts
        from elmo_cli.files.shared_folder import Folder
        from elmo_cli.options.shard import WHOLE

        shard = text_settings.parse_shard() or WHOLE
        run_on_workers = None if resources is None else _load_ray_workers(resources)
    if should_stop():
        raise StoppedError("Stopped before the first part")
    parts = Folder(folder)

    from elmo_cli.pretrained.find_model import resolve_model

    prepared = prepare_corpus(
        tuple(inputs),
        parts,
        settings=CorpusSettings(
            model=model_settings, text=text_settings, selection=selection, dtype=dtype
        ),
        model=resolve_model(model_settings),
        resources=resources,
        on_tokenizer=partial(keep_tokenizer, text_settings=text_settings),
    )
    start_garbage_collector()
    say_model(prepared.files, model_settings, writes_file=True)
    settings = prepared.settings
    plan = open_plan(
        parts, tuple(inputs), settings, part_mb=part_size, device=prepared.device
    )
    with stop_on_signal() as should_stop, progress_bar.progress_bar("part") as bar:
        if bar.disable:
            on_progress = progress_bar.part_lines(folder)
        else:
            on_progress = partial(progress_bar.show_parts, bar)
        counts = run_parts(
            parts,
            plan,
            settings,
            run_on_workers=run_on_workers,
            device=str(model_settings.device),
            shard=shard,
            verify=verify,
            on_progress=on_progress,
            should_stop=should_stop,
        )
    _say_end(folder, counts, is_shard=shard != WHOLE)


def _print_status(folder: str, *, as_json: bool, verify: bool) -> None:
    from elmo_cli.distributed.workers import read_status
    from elmo_cli.files.shared_folder import Folder

    with progress_bar.progress_bar("part", leave=False, is_shown=verify) as bar:
        status, lines = read_status(Folder(folder), verify=verify, on_part=bar.update)
    if as_json:
        click.echo(json_text({"folder": folder, **status}))
    else:
        click.echo(f"{folder}: " + "\n".join(lines))
    if not status["complete"]:
        click.get_current_context().exit(1)


def _load_ray_workers(resources: ResourceSettings) -> "RunOnWorkers":
    """Return the function that runs workers with Ray."""
    from elmo_cli.distributed.ray_engine import embed_on_ray, load_ray

    load_ray()  # Ray may be missing, which is an error before anything is read.
    return partial(embed_on_ray, resources=resources)


def _say_end(folder: str, counts: "RunCounts", *, is_shard: bool) -> None:
    n_parts = counted(counts.n_parts, "part")
    n_tokens = counted(counts.n_tokens, "token")
    n_missing = counts.n_parts - counts.n_done
    if counts.n_new == n_missing == 0:
        stderr.say(f"{folder} is complete already: {n_parts}")
    else:
        rate = rate_text(counts.n_tokens, time.monotonic() - counts.started)
        stderr.say(f"Wrote {folder}: {counts.n_done:,} of {n_parts}, {n_tokens}{rate}")
    if counts.failed or (n_missing > 0 and not is_shard):
        raise ElmoError(
            f"{folder}: {counted(n_missing, 'part')} missing",
            remedy="Give the same command to try again, or repair the input for "
            "another folder.",
        )
