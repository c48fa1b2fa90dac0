"""Messages of the errors that a user can cause."""

import json
from importlib import metadata
from typing import Any

import pytest

from elmo_cli.errors import install_command


class Installed:
    """Stand-in for the metadata of the installed package."""

    def __init__(self, direct_url: dict[str, Any] | None) -> None:
        self.text = None if direct_url is None else json.dumps(direct_url)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.text


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, '"elmo-cli[plot]"'),
        ({"url": "file:///home/me/my%20code", "dir_info": {}}, '"/home/me/my code[plot]"'),
        ({"url": "file:///co", "dir_info": {"editable": True}}, '-e "/co[plot]"'),
        (
            {"url": "https://example.org/elmo.git", "vcs_info": {"vcs": "git"}},
            '"elmo-cli[plot] @ git+https://example.org/elmo.git"',
        ),
        (
            {"url": "https://example.org/elmo.whl", "archive_info": {}},
            '"elmo-cli[plot] @ https://example.org/elmo.whl"',
        ),
    ],
)
def test_install_command_names_the_source(
    direct_url: dict[str, Any] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(direct_url))
    assert install_command("plot") == f"pip install {expected}"


def test_install_command_without_metadata_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("plot") == 'pip install "elmo-cli[plot]"'
