"""Counts the threads of confined processes: the kernel asks here before each new one (seccomp's user notification)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
import time
from functools import cache
from pathlib import Path

THREADS = 64  # of one process; where several of its threads start one at the same instant, up to twice as many
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # ioctl: the next question, an answer
_QUESTION = struct.Struct("QI68x")  # its number, and the thread that asks
_ANSWER = struct.Struct("QqiI")  # the question's number, a value, an error, flags
_GO_ON = 1
_PAUSE = 0.001  # seconds between answers: who asks without end takes no more than a twentieth of a processor here


def count_threads() -> socket.socket:
    """One end of a socket for a new child, which sends its listener through it (`seccomp.listen_for_threads`). The
    kernel then asks here before each new thread (seccomp's user notification): a limit on processes (RLIMIT_NPROC) does
    not bind root, and counts all programs of a user. One thread of this process answers for all children."""
    ours, theirs = socket.socketpair()
    _counter(os.getpid()).add(ours)
    return theirs


class _ThreadCounter:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handovers: dict[int, socket.socket] = {}
        threading.Thread(target=self._run, name="threads-of-workers", daemon=True).start()

    def add(self, handover: socket.socket) -> None:
        self._handovers[handover.fileno()] = handover
        self._epoll.register(handover, select.EPOLLIN)

    def _run(self) -> None:
        while True:
            for descriptor, events in self._epoll.poll():
                with contextlib.suppress(OSError):  # a child that has ended meanwhile
                    if descriptor in self._handovers:
                        self._take_over(self._handovers.pop(descriptor))
                    elif events & select.EPOLLIN:
                        _answer_thread(descriptor)
                        time.sleep(_PAUSE)
                    else:
                        self._epoll.unregister(descriptor)
                        os.close(descriptor)

    def _take_over(self, handover: socket.socket) -> None:
        self._epoll.unregister(handover)
        with handover:
            for listener in socket.recv_fds(handover, 1, 1)[1]:
                self._epoll.register(listener, select.EPOLLIN)


def _answer_thread(listener: int) -> None:
    question = bytearray(_QUESTION.size)
    fcntl.ioctl(listener, _RECEIVE, question)
    number, thread = _QUESTION.unpack(question)
    few = False  # if nothing can be known
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{thread}/status").read_bytes()
        few = int(status.partition(b"\nThreads:")[2].split(maxsplit=1)[0]) < THREADS
    if few:
        with contextlib.suppress(OSError):  # a kernel before 5.5 can refuse only
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, 0, _GO_ON))
            return
    fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -errno.EAGAIN, 0))


@cache
def _counter(pid: int) -> _ThreadCounter:
    return _ThreadCounter()
