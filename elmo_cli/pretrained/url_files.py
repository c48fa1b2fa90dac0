"""Files that a user gives by a path or a URL."""

import os
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from elmo_cli.pretrained.cache import get_once, hashed_folder
from elmo_cli.pretrained.download import download_file
from elmo_cli.pretrained.file_checks import check_file
from elmo_cli.pretrained.limits import size_limit
from elmo_cli.pretrained.mirror import try_mirror
from elmo_cli.pretrained.published import get_published_file
from elmo_cli.pretrained.registry import model_of_url
from elmo_cli.pretrained.roles import FILE_NAMES


def download_if_url(file: str | Path, role: str) -> Path:
    """Return a path unchanged. Download the file of an https URL once, for its path.

    If the URL belongs to a published model, the other URLs of the file serve as
    fallbacks.
    """
    url = str(file)
    if "://" not in url:
        return Path(os.path.expanduser(file))
    model = model_of_url(url)
    if model is not None and url in model.urls.get(role, ()):
        try_mirror(model, with_softmax=role in ("softmax", "vocabulary"))
        return get_published_file(model, role)
    name = Path(urlsplit(url).path).name or FILE_NAMES[role]
    path = hashed_folder("urls", identity=url) / name
    get_once(
        path.parent,
        find=path.exists,
        get=lambda: download_file(
            [url],
            path,
            partial(check_file, role=role),
            max_bytes=size_limit(role),
        ),
    )
    return path
