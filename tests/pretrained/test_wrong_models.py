"""Models that cannot be loaded: the errors of the classes that load them."""

from typing import Any

import pytest

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel
from elmo_cli.errors.exceptions import (
    InputError,
    MissingInputError,
    MissingModelError,
    MissingWeightsError,
    ModelError,
    SettingsError,
)
from elmo_cli.pretrained.convert import convert_weights
from tests.support.commands import TINY
from tests.support.small_models import SmallModels
from tests.support.wrong_calls import WrongCall, check_error, each_wrong_call


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder("missing", models.weights),
        MissingModelError,
        "missing: no such file",
    ),
    WrongCall(
        lambda models: Elmo(models.options, "missing.hdf5"),
        MissingWeightsError,
        "missing.hdf5: no such file",
    ),
    WrongCall(
        lambda models: Elmo(models.options, "missing.safetensors"),
        MissingWeightsError,
        "missing.safetensors: no such file",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model="./missing"),
        MissingModelError,
        "./missing: no such model folder or zip file. "
        "`elmo models` lists the models that have a name.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder.from_pretrained("missing.zip"),
        MissingModelError,
        "missing.zip: no such model folder or zip file. "
        "`elmo models` lists the models that have a name.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model="./empty"),
        MissingModelError,
        "empty: no model: it has neither options.json nor weights.hdf5. "
        "Give the folder of a model.",
    ),
    WrongCall(
        lambda models: LanguageModel(model=TINY),
        MissingModelError,
        f"{TINY}: predicting words requires a softmax. Add softmax.hdf5 next to "
        f"{TINY}/weights.hdf5, or give softmax_file.",
    ),
    WrongCall(
        lambda models: LanguageModel(vocabulary_file="missing"),
        MissingInputError,
        "missing: no such file",
    ),
    WrongCall(
        lambda models: convert_weights("missing", "new.hdf5"),
        MissingWeightsError,
        "missing: no such file",
    ),
)
def test_a_missing_file_of_a_model_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder(models.options),
        ModelError,
        "FOLDER/options.json: expected a name, a folder or a zip file, found "
        "another file. Give the folder that has the options.json and the weights "
        "of the model.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(models.options, "cuda"),
        SettingsError,
        "weight_file: expected a file, found the device cuda. For a device, use "
        "device='cuda'.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder("cuda:0"),
        MissingModelError,
        "cuda:0: no such model. For a device, use device='cuda:0'.",
    ),
    WrongCall(
        lambda models: LanguageModel("mps"),
        MissingModelError,
        "mps: no such model. For a device, use device='mps'.",
    ),
)
def test_a_wrong_name_of_a_model_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder(options_file="a.json"),  # type: ignore[call-overload]
        SettingsError,
        "options_file: requires weight_file. Add it, or remove options_file.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(weight_file=models.weights),  # type: ignore[call-overload]
        SettingsError,
        "weight_file: requires options_file. Add it, or remove weight_file.",
    ),
    WrongCall(
        lambda models: LanguageModel(options_file=models.options),
        SettingsError,
        "options_file: requires weight_file. Add it, or remove options_file.",
    ),
    WrongCall(
        lambda models: LanguageModel(weight_file="a.hdf5"),
        SettingsError,
        "weight_file: requires options_file. Add it, or remove weight_file.",
    ),
    WrongCall(
        lambda models: Elmo(options_file="a.json"),
        SettingsError,
        "options_file: requires weight_file. Add it, or remove options_file.",
    ),
    WrongCall(
        lambda models: Elmo("https://a.org/b.json"),
        SettingsError,
        "options_file: requires weight_file. Add it, or remove options_file.",
    ),
    WrongCall(
        lambda models: Elmo(weight_file=models.weights),
        SettingsError,
        "weight_file: requires options_file. Add it, or remove weight_file.",
    ),
)
def test_a_file_without_the_other_is_refused(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder("mini", models.weights),
        SettingsError,
        "options_file: expected a file, found the model mini. Use model='mini' alone.",
    ),
    WrongCall(
        lambda models: Elmo(models.folder, models.weights),
        SettingsError,
        "options_file: expected a file, found the folder FOLDER. Name the file in it.",
    ),
    WrongCall(
        lambda models: LanguageModel(options_file=models.options, weight_file=""),
        SettingsError,
        "weight_file: the name of the file is empty",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(models.options, ["a.hdf5"]),  # type: ignore[call-overload]
        InputError,
        "weight_file: expected a path or a URL, found a value of type list",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(vocabulary_file=3),  # type: ignore[call-overload]
        InputError,
        "vocabulary_file: expected a path or a URL, found 3",
    ),
)
def test_what_is_no_file_of_a_model_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder(  # type: ignore[call-overload]
            "mini", options_file=models.options, weight_file=models.weights
        ),
        SettingsError,
        "model: cannot be combined with options_file and weight_file. Remove model, or "
        "the two files.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(models.embedder.files, models.weights),  # type: ignore[call-overload]
        SettingsError,
        "model: cannot be combined with weight_file. Remove one of them.",
    ),
    WrongCall(
        lambda models: ElmoEmbedder.from_pretrained("mini", options_file="a.json"),
        SettingsError,
        "model: cannot be combined with options_file. Remove one of them.",
    ),
    WrongCall(
        lambda models: Elmo(models.options, models.weights, model=TINY),
        SettingsError,
        "model: cannot be combined with options_file and weight_file. Remove model, or "
        "the two files.",
    ),
    WrongCall(
        lambda models: Elmo(
            models.options, models.weights, module=models.embedder.elmo_bilm
        ),
        SettingsError,
        "module: cannot be combined with options_file and weight_file. Remove module, "
        "or the two files.",
    ),
    WrongCall(
        lambda models: HubElmo("mini", module=models.embedder.elmo_bilm),
        SettingsError,
        "module: cannot be combined with model. Remove one of them.",
    ),
    WrongCall(
        lambda models: Elmo(module=models.embedder),  # type: ignore[arg-type]
        InputError,
        "module: expected a BiLm, found a value of type ElmoEmbedder. Give "
        "ElmoEmbedder().elmo_bilm.",
    ),
)
def test_two_ways_to_give_a_model_are_refused(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, precision="float8"),  # type: ignore[call-overload]
        SettingsError,
        "precision: expected float32, tf32, bfloat16, float16 or int8, found 'float8'",
    ),
    WrongCall(
        lambda models: convert_weights(models.weights, "x", "float64"),
        SettingsError,
        "dtype: expected float32 or float16, found 'float64'",
    ),
    WrongCall(
        lambda models: convert_weights(models.weights, "x", ""),
        SettingsError,
        "dtype: expected float32 or float16, found ''",
    ),
)
def test_a_wrong_data_type_of_a_model_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


CLASSES = [ElmoEmbedder, LanguageModel, Elmo, HubElmo]
each_class = pytest.mark.parametrize("load", CLASSES, ids=lambda load: load.__name__)


@pytest.mark.usefixtures("folder")
@each_class
def test_a_misspelled_name_gets_a_suggestion(load: Any, models: SmallModels) -> None:
    wrong = WrongCall(
        lambda _models: load("orignal"),
        MissingModelError,
        "orignal: no such model. Did you mean 'original'? `elmo models` lists all "
        "names.",
    )
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_class
def test_a_model_is_a_name_or_a_path(load: Any, models: SmallModels) -> None:
    wrong = WrongCall(
        lambda _models: load(3),
        InputError,
        "model: expected a name or a path, found 3",
    )
    check_error(wrong, models)
