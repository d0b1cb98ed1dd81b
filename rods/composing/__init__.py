"""Writing a task for an environment from recipes, state and a phrase book, without a model."""
