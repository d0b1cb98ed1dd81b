if __name__ != "rods.console":
    raise ImportError(f"{__name__} is rods.console: import it and its modules by that name")
