"""Command `elmo`: `main` is the group, and `commands` has a file per command.

The options that commands share are in `shared_options`.

Only this package imports click. A command parses, makes one library call and prints.
Heavy packages (torch, h5py) are imported when a command runs.
"""
