"""The shared language of RODS: tasks, calls, environments, episodes, rewards and rules. No torch; opens no run log."""

__version__ = "0.1.0"
