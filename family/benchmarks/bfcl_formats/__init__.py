"""BFCL V4's format sensitivity: single turns in 26 prompt formats."""
