if __name__ != "rods.worlds":
    raise ImportError(f"{__name__} is rods.worlds: import it and its modules by that name")
