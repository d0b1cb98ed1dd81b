"""The controls of worlds and scenarios, and the gates of a variant."""
