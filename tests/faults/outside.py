"""What lies outside of a sandbox, and whether anything has touched it."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
from pathlib import Path

IPC_RMID = 0
IPC_STAT = 2
GETVAL = 12
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p
LIMITS = sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))


class Outside:
    """What an attacker would like to reach: files, servers, and memory, queues and semaphores
    between processes."""

    def __init__(self, folder: Path, shared: Path) -> None:
        name = f"rods-{os.getpid()}-{folder.name}"
        self.secret = folder / "secrets" / "the-secret"
        self.secret.parent.mkdir()
        self.secret.write_text("untouched", encoding="utf-8")
        self.shared = shared
        self.servers = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self.servers[1].bind(f"\0{name}")
        self.servers[1].listen()
        self.mailboxes = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        self.mailboxes[0].bind(str(folder / "datagrams"))
        self.mailboxes[1].bind(f"\0{name}-datagrams")
        self.memory = _checked(LIBC.shmget(0, 4096, 0o666))
        self.attached = LIBC.shmat(self.memory, None, 0)
        self.queue = _checked(LIBC.msgget(0, 0o666))
        _checked(LIBC.msgsnd(self.queue, struct.pack("l8s", 1, b"ours"), 8, 0))
        self.semaphore = _checked(LIBC.semget(0, 1, 0o666))
        self.messages = f"/{name}"
        self.open_messages = _checked(
            LIBC.mq_open(self.messages.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        )
        self.limits = _limits()
        self.given = {
            "secret": str(self.secret),
            "shared": str(self.shared),
            "parent": os.getpid(),
            "port": self.servers[0].getsockname()[1],
            "abstract": name,
            "datagrams": str(folder / "datagrams"),
            "memory": self.memory,
            "queue": self.queue,
            "semaphore": self.semaphore,
            "messages": self.messages,
        }

    def untouched(self) -> bool:
        """Whether the secret is as it was, alone in its folder, no server was reached, everybody
        can open and lock the file that all read, our limits are as before, and so is all that
        processes share."""
        for server in (*self.servers, *self.mailboxes):
            server.setblocking(False)
            try:
                if server in self.servers:
                    server.accept()[0].close()
                else:
                    server.recvmsg(1)
                return False
            except BlockingIOError:
                pass
        with self.shared.open("r+b", buffering=0) as file:  # not held up by a lease
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = ctypes.create_string_buffer(256)
        between = (
            ctypes.string_at(self.attached, 8) == bytes(8),
            LIBC.shmctl(self.memory, IPC_STAT, status) == 0,
            LIBC.msgrcv(self.queue, status, 8, 0, os.O_NONBLOCK) == 8,
            LIBC.msgsnd(self.queue, struct.pack("l8s", 1, b"ours"), 8, 0) == 0,
            LIBC.semctl(self.semaphore, 0, GETVAL) == 0,
            LIBC.close(LIBC.mq_open(self.messages.encode(), os.O_RDWR)) == 0,
        )
        alone = [*self.secret.parent.iterdir()] == [self.secret]
        same = self.secret.read_text(encoding="utf-8") == "untouched" and _limits() == self.limits
        return alone and same and all(between)

    def close(self) -> None:
        for each in (*self.servers, *self.mailboxes):
            each.close()
        LIBC.shmdt(ctypes.c_void_p(self.attached))
        LIBC.shmctl(self.memory, IPC_RMID, None)
        LIBC.msgctl(self.queue, IPC_RMID, None)
        LIBC.semctl(self.semaphore, 0, IPC_RMID)
        LIBC.close(self.open_messages)
        LIBC.mq_unlink(self.messages.encode())


def _checked(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(kind) for kind in LIMITS]
