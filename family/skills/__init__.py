"""How often what each function is needed for goes well, and variants whose functions are drawn by
that."""
