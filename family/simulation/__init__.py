"""Conversations in which nothing is executed (001): tools that are documents only, what a simulated
world is known to hold, tasks drawn from such tools, and the questions that models are asked which
play tools, users and verifier."""
