if __name__ != "rods.trainer":
    raise ImportError(f"{__name__} is rods.trainer: import it and its modules by that name")
