"""`elmo` that waits for 3 seconds where it would wait for 25."""

from elmo_cli.cli.main import main
from elmo_cli.distributed import ray_engine

ray_engine.CONNECT_SECONDS = 3  # type: ignore[misc]
ray_engine.SILENT_SECONDS = 3  # type: ignore[misc]
main()
