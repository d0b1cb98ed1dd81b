"""Where code runs that nobody vouches for: worlds in locked worker processes, behind the seam of any environment.

`confined` makes such an environment, and `environment` is its seam outside; `tiers` says how well this machine can lock
a process in. Inside, `confining` (with `landlock` and `seccomp`) is what a process lays on itself, and `host` answers.
`rods.environments.workers.worker` starts, limits and replaces the processes.
"""
