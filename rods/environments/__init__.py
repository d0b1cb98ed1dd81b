"""Where tasks run: the seam (`base`), finding an environment by name (`loading`), and worker processes, confined ones
among them (`workers`, `sandbox`)."""
