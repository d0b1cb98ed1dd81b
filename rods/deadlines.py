"""How long the machinery waits for one thing before it goes on without it, in seconds: one table.

What a user may set stands in `[operation]` (rods/config/operation.py: `sandbox.seconds`, `deadline_seconds`,
`grace_seconds`, those of endpoints) with its default. A deadline must exceed those of what happens inside it, or the
outer one ends the work first and reports the wrong culprit; tests/rods/test_deadlines.py holds these relations.
Intervals between two looks at something are no deadlines and stand where they are used."""

# One call of a tool.
SLOW_CALL = 1.0  # `rods env check` reports a call that takes longer, and the sandbox by default ends it
WORKER_CALL = 0.6  # a request to a worker of ours (BFCL's many digits), of its own CPU time. Below SLOW_CALL
WORKER_STALLED = 60.0  # by the clock: a worker that has not had that CPU time by then met a broken machine. Below HANGS
ALL_CALLS = 10.0  # `rods env check` asks a tool no more whose calls took so long together. Above SLOW_CALL
ALL_CALLS_WAITED = 60.0  # the same where calls wait for a server. Above ALL_CALLS
WORLD_CHECKED = 900.0  # `rods env check` ends with what it has found (--seconds). Above ALL_CALLS_WAITED
RUNAWAY_CALL = 3.0  # `rods env check` kills a process whose call goes on. Above SLOW_CALL

# Worker processes of environments.
WORKER_START = 60.0  # until a new process answers its opening request: a cold interpreter on a busy machine
SERVER_START = 60.0  # the same for an MCP server, whose packages are somebody else's. Below HANGS
WORLD_REMADE = 60.0  # more for a request whose world must be made anew first: start, state, calls, in all

# Computing in this process: an environment's calls, an author's planning.
HANGS = 600.0  # then the thread (daemon) or the turn (trainer) is given up. Above WORKER_START + WORLD_REMADE
MOST_HANGING = 8  # a count: calls in threads cannot be ended, and each that computes takes a share of the processor

# Rollout servers.
SERVER_ANSWER = 10.0  # to a question about its state
WEIGHTS_LOADED = 900.0  # until a server has read new weights. Above SERVER_ANSWER

# Two processes of one run.
BEATS_SEEN = 4.0  # a counter on a shared disk that stands still for so long is of a process that has gone
SILENCE = 30.0  # a process that holds its lock without a beat for so long is stuck. Above BEATS_SEEN
STUCK = 600.0  # so is one that beats and gets nothing done. Not below HANGS: a call given up is progress
OWNER_LOOK = 1.0  # a start waits for a lock that somebody may hold for a moment to see whose it is
ARRIVAL = 30.0  # until variants that an earlier merge names are visible on this host
MERGE_LOCK = 60.0  # until whoever merges or recovers lets go. Above ARRIVAL
TOGETHER = 6 * 3600.0  # processes that train together wait for what the first does alone. Above the sum of
# WEIGHTS_LOADED, MERGE_LOCK, ARRIVAL, `deadline_seconds` and MOST_HANGING × HANGS

# The end of a process.
THREADS_END = 2.0  # the daemon waits for its threads
STOPPED = 20.0  # `rods up`: between SIGTERM and SIGKILL. Above THREADS_END
