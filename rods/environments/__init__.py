"""Where tasks run: the seam (`base`), finding an environment by name (`loading`, `registry`), and
worker processes (`workers`)."""
