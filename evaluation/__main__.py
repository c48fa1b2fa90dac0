"""Entry point of `python evaluation`."""

from evaluate_model import main

main()
