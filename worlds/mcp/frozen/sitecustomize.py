"""Freezes clock and chance in a Python process: imported by the interpreter itself before anything
else, where this folder is on PYTHONPATH. `RODS_FROZEN` is the time that clocks show, in seconds
since 1970; clocks that only measure (`monotonic`, `perf_counter`) go on. Processes with equal calls
draw equal numbers, ids and keys."""

# mypy: ignore-errors

import datetime
import hashlib
import itertools
import os
import time

if _file := os.environ.get("RODS_ASKED"):  # of the names of variables that are asked for, not set

    class _Variables(dict):
        def __missing__(self, name):
            with open(_file, "ab") as names:  # noqa: PTH123 nothing is imported yet
                names.write(name + b"\n")
            raise KeyError(name)

    os.environ._data = _Variables(os.environ._data)

NOW = float(os.environ["RODS_FROZEN"])
_bytes = (hashlib.sha256(f"rods {number}".encode()).digest() for number in itertools.count())
_rest = b""


def urandom(size):
    global _rest
    while len(_rest) < size:
        _rest += next(_bytes)
    part = _rest[:size]
    _rest = _rest[size:]
    return part


os.urandom = urandom  # before `random` and `uuid`, which keep it
import random  # noqa: E402
import uuid  # noqa: E402


def _at_now(read):
    return lambda seconds=None: read(NOW if seconds is None else seconds)


_strftime = time.strftime
_asctime = time.asctime
_gmtime = time.gmtime
_localtime = time.localtime
time.time = lambda: NOW
time.time_ns = lambda: int(NOW * 1e9)
time.gmtime, time.localtime, time.ctime = map(_at_now, (_gmtime, _localtime, time.ctime))
time.strftime = lambda form, at=None: _strftime(form, _localtime(NOW) if at is None else at)
time.asctime = lambda at=None: _asctime(_localtime(NOW) if at is None else at)


class _Kind(type):
    """The real dates, which C code makes, are of the frozen class too."""

    def __instancecheck__(cls, value):
        return cls.__subclasscheck__(type(value))

    def __subclasscheck__(cls, kind):
        frozen = cls in (_Datetime, _Date)  # and not a class that was made of one of them
        return issubclass(kind, cls.__mro__[1]) if frozen else super().__subclasscheck__(kind)


class _Datetime(datetime.datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)

    @classmethod
    def today(cls):
        return cls.fromtimestamp(NOW)

    @classmethod
    def utcnow(cls):
        # older Pythons too
        return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)  # noqa: UP017


class _Date(datetime.date, metaclass=_Kind):
    @classmethod
    def today(cls):
        return cls.fromtimestamp(NOW)


class _Random(random.Random):
    """Where no seed is given, the C code asks the system, not `os.urandom`."""

    def __new__(cls, x=None, **options):
        return super().__new__(cls)

    def seed(self, a=None, version=2):
        super().seed(int.from_bytes(urandom(32), "big") if a is None else a, version)


_Datetime.__name__ = _Datetime.__qualname__ = "datetime"
_Date.__name__ = _Date.__qualname__ = "date"
datetime.datetime = _Datetime
datetime.date = _Date
random.Random = _Random
random.seed(0)
uuid._node = 0x0123456789AB
uuid._generate_time_safe = None
uuid._UuidCreate = None
