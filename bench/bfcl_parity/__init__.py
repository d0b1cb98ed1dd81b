"""Our executor and verdicts on BFCL's tasks beside the official ones, turn by turn, and both
speeds."""
