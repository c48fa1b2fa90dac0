"""Rules for imports. Each check starts a fresh interpreter or reads the source."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import elmo_cli
from elmo_cli import version

PACKAGE = Path(elmo_cli.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"

HEAVY = ("torch", "torch._dynamo", "h5py", "click", "numpy", "tqdm", "sacremoses")
TORCH_FREE = (
    "errors",
    "text.sources",
    "records.columns",
    "records.open_input",
    "model.vocabulary",
    "model.architecture",
    "pretrained.find_model",
    "options.output",
)
H5PY = {
    "outputs.hdf5_allennlp",
    "outputs.hdf5_packed",
    "files.open_hdf5",
    "outputs.hdf5_layouts",
    "outputs.activations_file",
    "model.tensor_files",
    "pretrained.tensor_names",
    "analysis.word_vectors.file_formats",
}
"""Modules that read or write HDF5."""
NEVER = {
    (folder, "outputs")
    for folder in ("model", "pretrained", "inference", "language_model")
}
"""Pairs of folders. The first one never imports the second one, although it could."""


def layout() -> list[str]:
    """Return folders and modules in the order of docs/architecture.md."""
    page = ARCHITECTURE.read_text(encoding="utf-8")
    block = page.partition("```text\nelmo_cli/\n")[2].partition("```")[0]
    # A line has one or several names, and after two spaces what they are.
    lines_of_names = re.findall(r"^  (\S+(?: \S+)*)  ", block, re.MULTILINE)
    return [name.rstrip("/") for line in lines_of_names for name in line.split()]


@cache
def imports() -> dict[str, set[str]]:
    """Return the full names that each module imports, in functions too."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        package = ("elmo_cli", *parts[:-1])
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                module = ".".join([*above, *([node.module] if node.module else [])])
                # `from elmo_cli import cli` imports a module by its name in the
                # package.
                names |= {f"{module}.{alias.name}" for alias in node.names}
        found[".".join(parts)] = names
    return found


def importers_of(name: str) -> set[str]:
    """Return the modules of the package that import a module or something in it."""
    return {
        module
        for module, names in imports().items()
        if any(f"{imported}.".startswith(f"{name}.") for imported in names)
    }


def graph() -> dict[str, set[str]]:
    """Return the modules of the package that each of them imports."""
    found = {}
    for module, names in imports().items():
        inside = {name.removeprefix("elmo_cli.") for name in names}
        inside |= {name.rpartition(".")[0] for name in inside}
        found[module] = inside & imports().keys() - {module}
    return found


def loaded_by(statement: str) -> set[str]:
    """Return the heavy packages that a fresh Python has loaded after a statement."""
    loaded = f"(name for name in {HEAVY} if name in sys.modules)"
    code = f"import sys; {statement}; print(*{loaded})"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return set(result.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import elmo_cli; dir(elmo_cli); elmo_cli.ElmoError") == set()


def test_modules_that_need_no_torch_load_none() -> None:
    loaded = loaded_by("; ".join(f"import elmo_cli.{module}" for module in TORCH_FREE))
    assert loaded <= {"numpy"}


def test_tokens_load_no_tokenizer() -> None:
    loaded = loaded_by(
        "import elmo_cli; elmo_cli.LanguageModel().score([['The', 'cat', 'sat']])"
    )
    assert "torch" in loaded
    assert "sacremoses" not in loaded


def test_the_library_changes_no_threads_and_loads_no_compiler() -> None:
    loaded = loaded_by(
        "import os; before = dict(os.environ); import elmo_cli; "
        "elmo_cli.Elmo, elmo_cli.HubElmo, elmo_cli.ElmoEmbedder; "
        "assert dict(os.environ) == before"
    )
    assert "torch" in loaded
    assert "torch._dynamo" not in loaded


def test_click_is_imported_under_cli_alone() -> None:
    assert {name.partition(".")[0] for name in importers_of("click")} == {"cli"}


def test_h5py_is_imported_only_where_files_are_read_or_written() -> None:
    assert importers_of("h5py") == H5PY


def test_no_module_imports_the_package_itself() -> None:
    for module, names in imports().items():
        assert "elmo_cli" not in names, module
        assert not [name for name in names if name.startswith("elmo_cli._")], module


def test_metadata_has_the_version_of_the_module() -> None:
    assert (
        importlib.metadata.version("elmo-cli")
        == elmo_cli.__version__
        == version.__version__
    )


def test_the_layout_on_the_page_has_every_folder_and_module() -> None:
    names = {module.partition(".")[0] for module in imports()}
    assert names - {"__init__", "__main__"} <= set(layout())


def test_imports_between_folders_go_up_in_the_layout_on_the_page() -> None:
    order = layout()
    against = []
    for name, imported in graph().items():
        folder = name.partition(".")[0]
        for other in imported if folder in order else ():
            other_folder = other.partition(".")[0]
            is_below = order.index(other_folder) > order.index(folder)
            if is_below or (folder, other_folder) in NEVER:
                against.append(f"{name} -> {other}")
    assert against == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    rest = graph()
    while free := {
        name for name, imported in rest.items() if not imported & rest.keys()
    }:
        rest = {name: imported for name, imported in rest.items() if name not in free}
    assert rest == {}


def test_every_public_name_is_there_when_it_is_used() -> None:
    for name in elmo_cli.__all__:
        assert getattr(elmo_cli, name) is not None
        assert name in dir(elmo_cli)


def test_help_lists_names_that_users_call() -> None:
    listed = (
        str(elmo_cli.__doc__).partition("Main names")[2].partition("`ElmoError`")[0]
    )
    names = re.findall(r"^ {4}(\w+(?:, \w+)*)", listed, re.MULTILINE)
    main_names = {name for line in names for name in line.split(", ")}
    assert {"ElmoEmbedder", "Elmo", "LanguageModel", "find_neighbours"} <= main_names
    assert main_names <= {*elmo_cli.__all__, "ElmoVectorizer"}
    assert len(main_names) <= 15


def test_the_stub_has_the_same_names_as_the_package() -> None:
    stub = Path(elmo_cli.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [
        node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)
    ]
    modules = {each.asname: node.module for node in imports for each in node.names}
    assert modules == vars(elmo_cli)["_MODULES"]


def test_the_name_of_a_command_leads_to_its_function() -> None:
    program = "import elmo_cli; elmo_cli.neighbors"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.stderr.splitlines()[-1] == (
        "AttributeError: module 'elmo_cli' has no attribute 'neighbors'. "
        "Use find_neighbours."
    )


def test_a_name_that_is_not_there_is_reported() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'elmo_cli' has no attribute 'Embedder'$"
    ):
        getattr(elmo_cli, "Embedder")  # noqa: B009 (mypy knows that it is not there)
