"""BFCL V4's questions that are answered with the help of the web."""
