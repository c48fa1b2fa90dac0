"""Entry point of `python evaluation`."""

from evaluation.evaluate_model import main

main()
