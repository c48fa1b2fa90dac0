"""Public names of the package, for type checkers. __init__.py has the same names."""

from elmo_cli.analysis.change.measure_change import Change as Change
from elmo_cli.analysis.change.measure_change import measure_change as measure_change
from elmo_cli.analysis.change.occurrence_matrices import (
    read_occurrences as read_occurrences,
)
from elmo_cli.analysis.occurrences.targets import read_targets as read_targets
from elmo_cli.analysis.occurrences.write_occurrences import (
    WrittenOccurrences as WrittenOccurrences,
)
from elmo_cli.analysis.occurrences.write_occurrences import (
    write_occurrences as write_occurrences,
)
from elmo_cli.analysis.pictures.plot_changes import plot_changes as plot_changes
from elmo_cli.analysis.pictures.plot_occurrences import Picture as Picture
from elmo_cli.analysis.pictures.plot_occurrences import (
    plot_occurrences as plot_occurrences,
)
from elmo_cli.analysis.pictures.plot_surprisals import (
    plot_surprisals as plot_surprisals,
)
from elmo_cli.analysis.search.neighbours import Neighbour as Neighbour
from elmo_cli.analysis.search.neighbours import Neighbours as Neighbours
from elmo_cli.analysis.search.neighbours import find_neighbours as find_neighbours
from elmo_cli.analysis.search.vector_files import VectorFiles as VectorFiles
from elmo_cli.analysis.search.vector_files import open_occurrences as open_occurrences
from elmo_cli.analysis.search.vector_sources import Location as Location
from elmo_cli.analysis.search.vector_sources import Vectors as Vectors
from elmo_cli.analysis.search.word_neighbours import (
    find_word_neighbours as find_word_neighbours,
)
from elmo_cli.analysis.word_vectors.average_vectors import (
    AverageVectors as AverageVectors,
)
from elmo_cli.analysis.word_vectors.average_vectors import (
    average_word_vectors as average_word_vectors,
)
from elmo_cli.analysis.word_vectors.token_vectors import (
    write_token_vectors as write_token_vectors,
)
from elmo_cli.analysis.word_vectors.write_word_vectors import (
    write_word_vectors as write_word_vectors,
)
from elmo_cli.distributed.embed_batch import EmbedBatch as EmbedBatch
from elmo_cli.elmo import Elmo as Elmo
from elmo_cli.elmo import ElmoOutput as ElmoOutput
from elmo_cli.elmo import batch_to_ids as batch_to_ids
from elmo_cli.embedder import ElmoEmbedder as ElmoEmbedder
from elmo_cli.errors.exceptions import ComputationError as ComputationError
from elmo_cli.errors.exceptions import DeviceError as DeviceError
from elmo_cli.errors.exceptions import ElmoError as ElmoError
from elmo_cli.errors.exceptions import InputError as InputError
from elmo_cli.errors.exceptions import ModelError as ModelError
from elmo_cli.errors.exceptions import OutputError as OutputError
from elmo_cli.errors.exceptions import SettingsError as SettingsError
from elmo_cli.errors.exceptions import StoppedError as StoppedError
from elmo_cli.errors.exceptions import WeightsError as WeightsError
from elmo_cli.inference.similarity import Similarity as Similarity
from elmo_cli.integrations.activations_dataset import (
    ActivationsDataset as ActivationsDataset,
)
from elmo_cli.integrations.hub_elmo import HubElmo as HubElmo
from elmo_cli.integrations.vectorizer import ElmoVectorizer as ElmoVectorizer
from elmo_cli.language_model.candidates import Candidate as Candidate
from elmo_cli.language_model.language_model import LanguageModel as LanguageModel
from elmo_cli.language_model.language_model import SentenceScore as SentenceScore
from elmo_cli.language_model.next_words import Prediction as Prediction
from elmo_cli.language_model.next_words import predict_words as predict_words
from elmo_cli.language_model.perplexity import Perplexities as Perplexities
from elmo_cli.language_model.perplexity import Perplexity as Perplexity
from elmo_cli.language_model.perplexity import measure_perplexity as measure_perplexity
from elmo_cli.language_model.samples import sample_sentences as sample_sentences
from elmo_cli.language_model.substitutes import Substitutes as Substitutes
from elmo_cli.language_model.substitutes import find_substitutes as find_substitutes
from elmo_cli.language_model.substitutes import iter_substitutes as iter_substitutes
from elmo_cli.language_model.surprisal import iter_surprisal as iter_surprisal
from elmo_cli.language_model.surprisal import measure_surprisal as measure_surprisal
from elmo_cli.language_model.surprisal_table import UnitSurprisal as UnitSurprisal
from elmo_cli.language_model.units import Unit as Unit
from elmo_cli.model.bilm import BiLm as BiLm
from elmo_cli.model.bilm import BiLmOutput as BiLmOutput
from elmo_cli.model.scalar_mix import ScalarMix as ScalarMix
from elmo_cli.options.model import DEFAULT_BATCH_SIZE as DEFAULT_BATCH_SIZE
from elmo_cli.options.text import TextSettings as TextSettings
from elmo_cli.outputs.reader import Activations as Activations
from elmo_cli.outputs.reader import open_activations as open_activations
from elmo_cli.pretrained.model_files import ModelFiles as ModelFiles
from elmo_cli.records.record import Record as Record
from elmo_cli.runs.file_sink import Summary as Summary
from elmo_cli.text.alignment import CharacterSpan as CharacterSpan
from elmo_cli.text.alignment import locate_tokens as locate_tokens
from elmo_cli.text.choose_tokenizer import tokenize as tokenize
from elmo_cli.text.occurrences import Occurrence as Occurrence
from elmo_cli.text.occurrences import find_occurrence as find_occurrence
from elmo_cli.version import __version__ as __version__

__all__: list[str]
