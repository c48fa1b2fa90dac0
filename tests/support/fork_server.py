"""A process that has imported what commands need, and forks one that runs each of them.

`commands.python` starts it, and `fork_client.py` asks it: a start of Python that
imports torch takes 1.5 s, a fork some milliseconds. The forked process has the streams,
folder, environment, limits and ignored signals of the client, and ends as any other.

It imitates how Python starts and ends. If a new Python breaks it, let `commands.python`
return `(sys.executable,)` on all systems: the tests then pass as before, and only take
longer.
"""

import atexit
import gc
import importlib
import io
import marshal
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types
import warnings
from contextlib import suppress
from typing import Any

import elmo_cli

PRELOADED = ("h5py", "numpy", "sacremoses", "torch", "torch.nn.functional", "tqdm")
"""Modules of others. Those of the package follow, but for the one that `-m` runs."""
DRAWING = ("matplotlib.backends.backend_agg", "matplotlib.figure", "sklearn.manifold")
"""Modules of others that draw pictures, which many pages of the documentation do."""

WAITING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a forked process gets when it has become the one that was asked for."""


def preload() -> None:
    """Import what commands use, without a thread, and out of garbage collection."""
    names = [
        module.name for module in pkgutil.walk_packages(elmo_cli.__path__, "elmo_cli.")
    ]
    for name in (*PRELOADED, *names, *DRAWING, "pyarrow.parquet"):
        if not name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


class Server:
    """Forks a process for each client, and tells it how the process ended."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.running: dict[int, socket.socket] = {}
        """The client of each process."""
        self.ended, self.wakes = socket.socketpair()
        for each in (self.ended, self.wakes):
            each.setblocking(False)
        for source in (sys.stdin.buffer, listener, self.ended):
            self.selector.register(source, selectors.EVENT_READ)
        signal.set_wakeup_fd(self.wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> dict[str, Any]:
        """Return in each forked process, with what its client asks for."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is sys.stdin.buffer:  # The tests have ended.
                    for pid in self.running:
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                elif key.fileobj is self.listener:
                    if asked := self.fork():
                        return asked
                elif key.fileobj is self.ended:
                    self.ended.recv(1000)
                    self.report()
                elif key.data in self.running:  # The client was killed.
                    os.kill(key.data, signal.SIGKILL)
                    self.selector.unregister(key.fileobj)

    def fork(self) -> dict[str, Any] | None:
        """Fork a process for the next client: its request there, and None here."""
        client = self.listener.accept()[0]
        asked = receive(client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy may have started a thread.
            pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            self.selector.close()
            for each in (
                *self.running.values(),
                self.listener,
                self.ended,
                self.wakes,
                client,
            ):
                each.close()
            return asked
        for stream in asked["streams"].values():
            os.close(stream)
        self.running[pid] = client
        client.sendall(pid.to_bytes(8, "little"))
        self.selector.register(client, selectors.EVENT_READ, pid)
        return None

    def report(self) -> None:
        """Tell the clients of processes that have ended how they did."""
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self.running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            with suppress(KeyError):  # It was killed.
                self.selector.unregister(client)
                client.sendall(code.to_bytes(8, "little", signed=True))
            client.close()


def receive(client: socket.socket) -> dict[str, Any]:
    """Read what a client asks for, with its streams by their numbers there."""
    size, received, _, _ = socket.recv_fds(client, 8, 3)
    n_bytes = int.from_bytes(size, "little")
    message = b""
    while len(message) < n_bytes:
        message += client.recv(n_bytes - len(message))
    asked: dict[str, Any] = marshal.loads(message)
    return {**asked, "streams": dict(zip(asked["open"], received, strict=True))}


def enter(asked: dict[str, Any]) -> None:
    """Take over a client's streams, folder, environment, limits and signals."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(asked["folder"])
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, limits in asked["limits"]:
        resource.setrlimit(number, limits)
    for number in range(3):
        os.close(number)
    for number, stream in asked["streams"].items():
        os.dup2(stream, number)
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = open_stream(number) if number in asked["streams"] else None
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITING)


def open_stream(number: int) -> io.TextIOWrapper:
    """Return a standard stream as Python opens it."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    is_raw = bool(number and os.environ.get("PYTHONUNBUFFERED"))
    file: Any = open(  # noqa: SIM115
        number, "wb" if number else "rb", 0 if is_raw else -1, closefd=False
    )
    return io.TextIOWrapper(
        file,
        encoding or "utf-8",
        "backslashreplace" if number == 2 else errors or "strict",
        line_buffering=number == 2 or os.isatty(number),
        write_through=is_raw,
    )


def run(arguments: list[str]) -> None:
    """Do what `python ARGUMENTS` does: `-c CODE`, `-m MODULE`, or a file."""
    kind = arguments[0]
    name = arguments[1] if len(arguments) > 1 else ""
    sys.argv = arguments
    if kind == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(name, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


def finish(arguments: list[str]) -> int:
    """Run, and return the exit status.

    It ends as Python does, but leaves the objects of all modules alone: to free them
    takes half a second of a forked process.
    """
    status = 0
    try:
        run(arguments)
    except SystemExit as error:
        status = (
            error.code if isinstance(error.code, int) else int(error.code is not None)
        )
        if status and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)  # noqa: T201
    except BaseException as error:
        traceback.print_exc()
        status = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            status = -signal.SIGINT
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        status = 120
    if status < 0:
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    # It is ignored in the background of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITING)
    preload()
    request = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    enter(request)
    os._exit(finish(request["arguments"]) & 255)
