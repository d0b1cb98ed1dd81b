"""ACEBench: single calls, dialogues, requests that cannot be served, and agents with simulated
APIs."""
