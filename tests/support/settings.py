"""All classes whose fields are options."""

from typing import Any, Final

from elmo_cli.options.analysis import (
    AveragingSettings,
    ChangeSettings,
    NeighbourSettings,
    PlotSettings,
    TargetSettings,
)
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import OutputSettings
from elmo_cli.options.prediction import PredictionSettings
from elmo_cli.options.resources import ResourceSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.surprisal import SurprisalSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.training.training_settings import (
    RunSettings,
    StartSettings,
    TrainingSettings,
    TrainingTextSettings,
)

ALL_SETTINGS: Final[tuple[Any, ...]] = (
    AveragingSettings,
    ChangeSettings,
    ModelSettings,
    NeighbourSettings,
    OutputSettings,
    PlotSettings,
    PredictionSettings,
    ResourceSettings,
    RunSettings,
    SelectionSettings,
    StartSettings,
    SurprisalSettings,
    TargetSettings,
    TextSettings,
    TrainingSettings,
    TrainingTextSettings,
)
