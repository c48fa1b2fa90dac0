"""JSON files of our own: any other form, and any damage, is an error of one line."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from elmo_cli import ElmoEmbedder, ElmoError, open_activations
from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.json_form import parse_json
from elmo_cli.training.run_log import read_run_log
from tests.support.commands import TINY, elmo
from tests.support.distributed_runs import RUN


class Item(NamedTuple):
    number: int
    name: str = ""


@dataclass(frozen=True)
class Form:
    items: list[Item]
    texts: dict[str, str] = field(default_factory=dict)
    size: float | None = None
    is_new: bool = False


def test_parse_json_builds_the_form_and_ignores_other_names() -> None:
    content = (
        '{"items": [{"number": 1, "later": 2}], "texts": {"a": "b"}, "size": 3, '
        '"x": []}'
    )
    assert parse_json(content, Form, "f") == Form([Item(1)], {"a": "b"}, 3)
    assert parse_json('{"items": [], "size": null}', Form, "f") == Form([])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty or cut"),
        (b'{"items": [', "it is empty or cut"),
        (b"\xff", "it is empty or cut"),
        (b"null", "expected an object, found null"),
        (b"{}", "expected 'items', found none"),
        (b'{"items": null}', "items: expected a list, found null"),
        (b'{"items": [3]}', "items: expected an object, found 3"),
        (
            b'{"items": [{"number": true}]}',
            "items: number: expected a whole number, found true",
        ),
        (
            b'{"items": [{"number": 9223372036854775808}]}',
            "items: number: expected a whole number, found 9223372036854775808",
        ),
        (b'{"items": [], "texts": {"a": 1}}', "texts: expected a text, found 1"),
        (b'{"items": [], "texts": []}', "texts: expected an object, found []"),
        (b'{"items": [], "size": "9"}', 'size: expected a number, found "9"'),
        (b'{"items": [], "size": NaN}', "size: expected a number, found NaN"),
        (
            b'{"items": [], "size": -Infinity}',
            "size: expected a number, found -Infinity",
        ),
        (
            b'{"items": [], "size": 1%s}' % (400 * b"0"),
            f"size: expected a number, found 1{59 * '0'}",
        ),
        (b'{"items": [], "is_new": 1}', "is_new: expected true or false, found 1"),
        (100_000 * b"[", "it is empty or cut"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_parse_json_says_in_one_line_what_differs(content: bytes, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(content, Form, "f.json")
    assert str(caught.value) == f"f.json: the file is damaged: {reason}"


# Damage anywhere

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    3,
    10**400,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "7",
    "a\nb",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    ["x"] * 3,
]
HALF = (*RUN, "--shard", "1/2")
"""Command whose folder is not complete."""
often = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def damages(draw: st.DrawFn) -> Callable[[str], bytes]:
    """Return a function that damages a file: one value, one name, or some bytes."""
    kind = draw(st.sampled_from(["value", "value", "value", "name", "cut", "bytes"]))
    number = draw(st.integers(0, 999))
    value = draw(st.sampled_from(ODD))

    def damage(content: str) -> bytes:
        data = content.encode()
        position = number * len(data) // 1000
        if kind == "cut":
            return data[:position]
        if kind == "bytes":
            return data[:position] + b"\xff\0" + data[position + 2 :]
        document = json.loads(content)
        places = list(places_of(document))
        parent, key = places[number % len(places)]
        if kind == "name" and isinstance(parent, dict):
            parent[f"{key}x"] = parent.pop(key)
        else:
            parent[key] = value
        return json.dumps(document).encode()

    return damage


def places_of(value: Any) -> Any:
    """Yield the place of each value: its list or object, and its index or name."""
    if not isinstance(value, (dict, list)):
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        yield from places_of(item)


def assert_reads_or_says_one_line(read: Callable[[], object]) -> None:
    try:
        read()
    except ElmoError as error:
        lines = str(error).splitlines()
        assert len(lines) == 1


def assert_commands_say_one_line() -> None:
    assert_reads_or_says_one_line(lambda: [*open_activations("out").records()])
    status = ("distribute", "--status", "out")
    for arguments in (status, (*status, "--json"), HALF):
        result = elmo(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.output
        )
        assert result.exit_code in (0, 1), result.output
        assert (
            sum(line.startswith("Error: ") for line in result.stderr.splitlines()) <= 1
        )


@contextmanager
def restored(path: Path) -> Iterator[None]:
    """Write the content of a file again after a block."""
    content = path.read_bytes()
    try:
        yield
    finally:
        path.write_bytes(content)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the plan of half a distributed run, in the folder where commands run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        Path("text.txt").write_text("The cat sat\n\n" * 6)
        assert elmo(*HALF).exit_code == 0
        yield Path("out/_elmo/plan.parquet")


@often
@given(damage=damages())
def test_damaged_options_are_one_line(
    tmp_path: Path, damage: Callable[[str], bytes]
) -> None:
    content = json.loads((TINY / "options.json").read_text())
    content["training"] = {"state": "carry", "tokenizer": "moses:en"}
    model = tmp_path / "model"
    shutil.copytree(TINY, model, dirs_exist_ok=True)
    (model / "options.json").write_bytes(damage(json.dumps(content)))
    assert_reads_or_says_one_line(
        lambda: ElmoEmbedder(model=model).embed_sentence(["a"])
    )


@often
@given(damage=damages(), keeps_hash=st.booleans())
def test_a_damaged_plan_is_one_line(
    plan: Path, keeps_hash: bool, damage: Callable[[str], bytes]
) -> None:
    schema = parquet.read_schema(plan)
    metadata = {**schema.metadata, b"plan": damage(schema.metadata[b"plan"].decode())}
    if not keeps_hash:
        metadata[b"plan_sha256"] = hashlib.sha256(metadata[b"plan"]).hexdigest()
    with restored(plan):
        parquet.write_table(schema.with_metadata(metadata).empty_table(), plan)
        assert_commands_say_one_line()


@often
@given(damage=damages(), is_success=st.booleans())
def test_a_damaged_part_is_one_line(
    plan: Path, is_success: bool, damage: Callable[[str], bytes]
) -> None:
    path = Path("out/part-00000000.parquet")
    with restored(path):
        table = parquet.read_table(path)
        damaged = damage(table.schema.metadata[b"elmo"].decode())
        parquet.write_table(table.replace_schema_metadata({"elmo": damaged}), path)
        if is_success:
            Path("out/_SUCCESS").touch()
        assert_commands_say_one_line()
    Path("out/_SUCCESS").unlink(missing_ok=True)


@often
@given(damages=st.lists(damages(), max_size=4))
def test_a_damaged_log_keeps_the_lines_that_can_be_read(
    tmp_path: Path, damages: list[Callable[[str], bytes]]
) -> None:
    entry = json.dumps({"step": 1, "loss": 2.5})
    damaged = b"".join(damage(entry).replace(b"\n", b" ") + b"\n" for damage in damages)
    (tmp_path / "log.jsonl").write_bytes(f"{entry}\n".encode() + damaged)
    assert read_run_log(tmp_path / "log.jsonl", 3)[0] == entry


@pytest.mark.parametrize("name", ["_elmo/plan.parquet", "part-00000000.parquet"])
def test_a_cut_file_of_a_folder_is_one_line(plan: Path, name: str) -> None:
    path = Path("out", name)
    content = path.read_bytes()
    half = len(content) // 2
    for damaged in (
        b"",
        b"PAR1",
        content[:half],
        bytes(half) + content[half:],
        content + b"x",
    ):
        with restored(path):
            path.write_bytes(damaged)
            assert_commands_say_one_line()
