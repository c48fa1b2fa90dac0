"""Helpers of the tests. Nothing here is collected as a test.

To test what a command prints, write the command and its input into the `errors.txt`
next to the tests, or into `tests/cli/answers.txt`, and run `pytest --accept`:
`transcripts` explains the form, and `accept` writes it. To test anything else that a
command does, call it:

    def test_embed_writes_a_dataset_per_line(folder: Path) -> None:
        Path("text.txt").write_text("The cat sat")
        elmo("embed", "text.txt", "out.hdf5", "--model", TINY)
        with open_activations("out.hdf5") as activations:
            assert len(activations) == 1

The fixtures, such as `folder`, an empty current folder, are in `tests/conftest.py`. One
runs for every test: `golden_models_are_read_once` replaces `load_bilm` of the engine,
because reading a model is slow.

`TINY` (`golden/relu`) is a model with random weights that loads at once.
`tests/golden/README.md` says where it comes from.

- Commands: `commands` runs them, `fork_server` quickly in a process of their own.
- Models: `golden` has AllenNLP's figures, `reference` computes ELMo in NumPy,
  `strategies` makes random small models, and `states` their initial states.
- Runs: `runs` for `embed_file`, `distributed_runs` for `elmo distribute`,
  `training_runs` and `killed_training` for `elmo train`.
- Files: `layouts` compares outputs, and `table_files` writes tables.
- Trouble: `failing_disk`, `fake_device` (a GPU), `no_posix` (Windows), `website`.
- Trials: `trials` repeats tests at random moments, `processors` skips them where the
  processor lacks instructions.
"""
