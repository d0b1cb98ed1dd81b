"""How long the machinery waits for one thing before it goes on without it, in seconds: one table.

What a user may set stands in `[operation]` (rods/config/operation.py: `sandbox.seconds`,
`deadline_seconds`, `grace_seconds`, those of endpoints) with its default. A deadline must exceed
those of what happens inside it, or the outer one ends the work first and reports the wrong culprit;
tests/rods/test_deadlines.py holds these relations. Intervals between two looks at something are no
deadlines and stand where they are used."""

# One call of a tool.
# `rods env check` reports a call that takes longer, and the sandbox by default ends it
SLOW_CALL = 1.0
# a request to a worker of ours (BFCL's many digits), of its own CPU time. Below SLOW_CALL
WORKER_CALL = 0.6
# by the clock: a worker that has not had that CPU time by then met a broken machine. Below HANGS
WORKER_STALLED = 60.0
# `rods env check` asks a tool no more whose calls took so long together. Above SLOW_CALL
ALL_CALLS = 10.0
ALL_CALLS_WAITED = 60.0  # the same where calls wait for a server. Above ALL_CALLS
# `rods env check` ends with what it has found (--seconds). Above ALL_CALLS_WAITED
WORLD_CHECKED = 900.0
RUNAWAY_CALL = 3.0  # `rods env check` kills a process whose call goes on. Above SLOW_CALL

# Worker processes of environments.
# until a new process answers its opening request: a cold interpreter on a busy machine
WORKER_START = 60.0
SERVER_START = 60.0  # the same for an MCP server, whose packages are somebody else's. Below HANGS
# more for a request whose world must be made anew first: start, state, calls, in all
WORLD_REMADE = 60.0

# Computing in this process: an environment's calls, an author's planning.
# then the thread (daemon) or the turn (trainer) is given up. Above WORKER_START + WORLD_REMADE
HANGS = 600.0
# a count: calls in threads cannot be ended, and each that computes takes a share of the processor
MOST_HANGING = 8

# Rollout servers.
SERVER_ANSWER = 10.0  # to a question about its state
WEIGHTS_LOADED = 900.0  # until a server has read new weights. Above SERVER_ANSWER

# Two processes of one run.
# a counter on a shared disk that stands still for so long is of a process that has gone
BEATS_SEEN = 4.0
# a process that holds its lock without a beat for so long is stuck. Above BEATS_SEEN
SILENCE = 30.0
# so is one that beats and gets nothing done. Not below HANGS: a call given up is progress
STUCK = 600.0
OWNER_LOOK = 1.0  # a start waits for a lock that somebody may hold for a moment to see whose it is
ARRIVAL = 30.0  # until variants that an earlier merge names are visible on this host
# processes that train together wait for what the first does alone. Above the sum of
TOGETHER = 6 * 3600.0
# WEIGHTS_LOADED, ARRIVAL, `deadline_seconds` and MOST_HANGING × HANGS

# The end of a process.
THREADS_END = 2.0  # the daemon waits for its threads
TRACKERS_END = 10.0  # the trainer waits for what its trackers have not sent yet
STOPPED = 20.0  # `rods up`: between SIGTERM and SIGKILL. Above THREADS_END and TRACKERS_END
