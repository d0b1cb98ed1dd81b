if __name__ != "rods.evaluation":
    raise ImportError(f"{__name__} is rods.evaluation: import it and its modules by that name")
