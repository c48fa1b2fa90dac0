"""The list of published models, and warnings for texts of another domain."""

from elmo_cli.model.options_json import parse_architecture, read_architecture
from elmo_cli.model.parameter_counts import parameters_by_part
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.find_model import find_files_by_name, find_files_by_settings
from elmo_cli.pretrained.registry import (
    MODELS,
    model_of_url,
    published_model,
)
from elmo_cli.pretrained.roles import FILE_NAMES, role_of


def test_the_published_numbers_of_parameters() -> None:
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    char_cnn = {"embedding": {"dim": 16}, "filters": filters, "activation": "relu"}
    for name, dim, n_highway in (
        ("small", 1024, 1),
        ("medium", 2048, 1),
        ("original", 4096, 2),
    ):
        lstm = {"dim": dim, "projection_dim": dim // 8, "n_layers": 2}
        architecture = parse_architecture(
            {"lstm": lstm, "char_cnn": {**char_cnn, "n_highway": n_highway}}
        )
        model = published_model(name)
        assert model is not None
        assert sum(parameters_by_part(architecture).values()) == model.parameters
    architecture = read_architecture(find_files_by_name("mini").options)
    assert sum(parameters_by_part(architecture).values()) == MODELS[0].parameters


def test_the_registry_is_sound() -> None:
    names = [name for model in MODELS for name in (model.name, *model.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    for model in MODELS[1:]:
        urls = [url for role in model.urls.values() for url in role]
        assert model.urls.keys() <= {"archive", *FILE_NAMES}
        has_files = "archive" in model.urls or {"options", "weights"} <= {*model.urls}
        assert has_files == (model.page is None)
        assert ("softmax" in model.urls) == ("vocabulary" in model.urls)
        assert role_of(model.files[-1]) == "weights"
        assert len(urls) == len(set(urls))
        for url in urls:
            http = (
                "http://vectors.nlpl.eu/",
                "http://data.bioemb",
                "http://maintenance.dallago",
            )
            assert url.startswith(("https://", *http))


def test_the_urls_of_old_code_are_known() -> None:
    name = "elmo_2x4096_512_2048cnn_2xhighway"
    for host in ("allennlp.s3.amazonaws.com", "s3-us-west-2.amazonaws.com/allennlp"):
        folder = f"https://{host}/models/elmo/{name.removeprefix('elmo_')}"
        model = model_of_url(f"{folder}/{name}_weights.hdf5")
        assert model is not None
        assert model.name == "original"
        assert model_of_url(f"{folder}/other.hdf5") is None


def test_every_model_of_a_language_has_its_code_and_number() -> None:
    codes = {model.name: model.language_code for model in MODELS}
    archives = {model.name: model.urls.get("archive", ())[:1] for model in MODELS}
    without_code = [name for name, code in codes.items() if code is None]
    assert without_code == ["seqvec", "catelmo"]
    assert codes["mini"] == "en"
    assert codes["portuguese"] == "pt"
    assert codes["nlpl-203-latin"] == "la"
    assert all(
        codes[name] == name[11:] for name in codes if name.startswith("many-langs-")
    )
    for code, number in (("ar", 136), ("fr", 150), ("nb", 165), ("zh", 179)):
        url = f"https://vectors.nlpl.eu/repository/11/{number}.zip"
        assert archives[f"many-langs-{code}"] == [url]


def test_the_files_of_a_published_model_know_its_language() -> None:
    files = find_files_by_name("mini")
    assert files.language == "en"
    assert (
        find_files_by_settings(
            ModelSettings(options_file=files.options, weight_file=files.weights)
        ).language
        is None
    )
    assert find_files_by_name(files.weights.parent).language is None
