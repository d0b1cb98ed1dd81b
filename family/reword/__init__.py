"""`rods data reword`: a language model says the users' turns of a task file anew."""
