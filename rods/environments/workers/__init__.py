"""Worker processes that can be killed: `worker` keeps one running, `child` is its process, `serving` runs in it, and
`confining` (with `seccomp`, and `threads` in the parent) takes rights away from code that is not trusted."""
