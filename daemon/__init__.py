if __name__ != "rods.daemon":
    raise ImportError(f"{__name__} is rods.daemon: import it and its modules by that name")
