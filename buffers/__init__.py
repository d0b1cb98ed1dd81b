"""What is remembered: append-only logs, and everything that is folded from them."""
