"""Where code runs that nobody vouches for: worlds in locked worker processes, behind the seam of any environment.

Outside: `confined` makes such an environment as well as the machine can, `environment` is its seam. Inside:
`confining` (with `seccomp`) is what a process lays on itself, and `host` answers. `rods.environments.workers.worker`
starts, limits and replaces the processes.
"""
