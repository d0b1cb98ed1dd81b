"""Environments whose code is not trusted run in confined worker processes, behind the usual seam
(docs/sandbox.md). In the worker process are `confining` (with `seccomp`), which takes its rights
away, and `host`, which answers requests; a process by itself, and the requests to it, are the work
of `rods.environments.workers`."""
