"""Checkpoints on a hub: uploads beside the training, by the user's own token."""
