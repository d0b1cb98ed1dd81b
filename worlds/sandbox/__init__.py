"""Environments whose code is not trusted: their instances run in confined worker processes, behind the usual seam.

In the calling process: `confined` finds what this machine can enforce, makes the environment and counts its threads,
`environment` implements the seam, `pool` shares processes between environments. In the worker process: `confining`
(with `seccomp`) takes its rights away, `host` answers requests. A process by itself, and the requests to it, are the
work of `rods.environments.workers`.
"""
