"""nano: a policy of half a million parameters, built and warm-started on the spot for desk."""

# how demonstrations are batched: part of a recipe, and named by what studies record
BATCHES = "batches of all lengths"
