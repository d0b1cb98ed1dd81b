"""ACEBench: agents with simulated APIs."""
