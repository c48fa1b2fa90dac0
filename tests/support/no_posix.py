"""Take away what Windows lacks: a plugin of pytest, or a module to import first."""

import os
import select
import sys
import warnings

import h5py  # noqa: F401 (these have their own ways on Windows: they keep what is here)
import pytest  # noqa: F401
import torch  # noqa: F401

MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty")
OF_OS = (
    "O_CLOEXEC",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "copy_file_range",
    "fork",
    "posix_fadvise",
    "posix_fallocate",
    "pread",
    "pwrite",
    "register_at_fork",
    "sched_getaffinity",
    "sysconf",
    "uname",
)

for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]
for name in OF_OS:
    if hasattr(os, name):
        delattr(os, name)
for name in ("epoll", "poll"):
    if hasattr(select, name):
        delattr(select, name)

with warnings.catch_warnings():  # its locks are files alone now
    warnings.simplefilter("ignore")
    import filelock  # noqa: F401
