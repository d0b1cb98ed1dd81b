"""Adapters for the trainers of others, a file each; nothing else imports them."""
