"""Environments whose code is not trusted: their instances run in confined worker processes, behind the usual seam.

In the calling process: `confined` finds what this machine can enforce and makes the environment, `environment`
implements the seam. In the worker process: `host` answers requests. Starting, limiting and confining the processes is
the work of `rods.environments.workers`.
"""
