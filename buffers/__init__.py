"""What is remembered: append-only logs, and everything that is folded from them."""

if __name__ != "rods.buffers":
    raise ImportError(f"{__name__} is rods.buffers: import it and its modules by that name")
