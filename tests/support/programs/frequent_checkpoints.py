"""`elmo` that makes a checkpoint after six tokens.

The environment variable MAX_FILE_BYTES limits the size of files, like a full disk.
"""

import os
import resource

import elmo_cli.runs.embed_file
from elmo_cli.cli.main import main

max_bytes = os.environ.get("MAX_FILE_BYTES")
if max_bytes is not None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(max_bytes), int(max_bytes)))
elmo_cli.runs.embed_file.checkpoint_tokens = lambda architecture: 6
main()
