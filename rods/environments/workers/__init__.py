"""Worker processes that can be killed: `worker` keeps them running, `child` is one of them,
`serving` runs in it."""
