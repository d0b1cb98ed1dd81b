"""Does it pay? Twins of a run, which lack what is in question, and their comparison."""
