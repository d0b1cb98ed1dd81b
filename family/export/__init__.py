"""`rods data export`: what a run holds, as tables for other tools."""
