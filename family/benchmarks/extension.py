"""What benchmarks add to the core: a program."""

from rods.extension import Extension


class Benchmarks(Extension):
    name = "benchmarks"
    verbs = {"eval": ("__main__:main", "a policy on a benchmark's tasks, or on any environment's", "program")}


EXTENSION = Benchmarks()
