"""BFCL V4's questions about earlier conversations, of which a policy keeps what it writes into a
memory."""
