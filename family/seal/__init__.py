"""SEAL (002): a learning interface whose components come and go as the labels of the last steps ask
for them, and weights of advantages by label."""
