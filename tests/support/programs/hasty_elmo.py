"""`elmo` that waits for 3 seconds where it would wait for 25."""

from elmo_cli.cli.main import main
from elmo_cli.distributed import ray_engine

# mypy does not know that the names are final for other modules only.
ray_engine._CONNECT_SECONDS = 3  # type: ignore[misc]
ray_engine._SILENT_SECONDS = 3  # type: ignore[misc]
main()
