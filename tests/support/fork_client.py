"""Do what `python` does with its arguments, in a process of `fork_server.py`.

The first argument is the address of the server. It ends as that process does.
`commands.Forked` sends signals to the process itself; signals of a shell are passed on.
"""

import marshal
import os
import resource
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NOFILE)


def main() -> None:
    """Ask for the process, and wait for its end."""
    streams = [
        number for number in range(3) if os.path.lexists(f"/proc/self/fd/{number}")
    ]
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    os.umask(umask := os.umask(0))
    asked = {
        "arguments": sys.argv[2:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": umask,
        "open": streams,
        "ignored": [int(n) for n in PASSED_ON if signal.getsignal(n) is signal.SIG_IGN],
        "limits": [(number, resource.getrlimit(number)) for number in LIMITS],
    }
    message = marshal.dumps(asked)
    server = socket.socket(socket.AF_UNIX)
    server.connect(sys.argv[1])
    socket.send_fds(server, [len(message).to_bytes(8, "little")], streams)
    server.sendall(message)
    for number in streams:
        os.close(number)
    process = int.from_bytes(server.recv(8), "little")
    with open(f"{sys.argv[1]}.{os.getpid()}", "w") as file:
        file.write(f"{process}\n")
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    answer = server.recv(8)
    status = int.from_bytes(answer, "little", signed=True) if answer else 255
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
