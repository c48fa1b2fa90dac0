"""Entry point of `python evaluation`."""

import sys
from pathlib import Path

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

from evaluation.evaluate_model import main

main()
