"""Metadata hook that puts the addresses of the project into its URLs and its README.

The addresses are defined once, as `repository` and `documentation` under
[tool.hatch.metadata.hooks.custom] in pyproject.toml. README.md itself has relative
links, which a package index cannot follow.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Hook that fills in the dynamic fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README and the URLs to the metadata."""
        repository = self.config["repository"].rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        urls = {"Paper": self.config["paper"]}
        if self.config["documentation"]:
            urls["Documentation"] = self.config["documentation"]
        if repository:
            text = absolute_links(text, f"{repository}/blob/v{metadata['version']}")
            urls["Repository"] = repository
            urls["Issues"] = f"{repository}/issues"
            urls["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls


def absolute_links(text: str, address: str) -> str:
    """Return Markdown whose relative links and pictures start with `address`."""
    links = re.sub(
        r"(?<!!)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)", rf"\1({address}/\2)", text
    )
    raw = address.replace("/blob/", "/raw/")
    return re.sub(r"(!\[[^\]]*\])\((?!https?:)([^)]+)\)", rf"\1({raw}/\2)", links)
