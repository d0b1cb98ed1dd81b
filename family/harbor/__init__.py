"""`rods data export --format harbor`: tasks as Harbor's folders, which play without a run."""
