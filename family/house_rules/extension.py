"""What house rules add to the core: a world that has something to teach."""

from rods.extension import Extension


class HouseRules(Extension):
    name = "house_rules"
    environments = {".house": "rods.family.house_rules.house:described"}
    warm_starts = {"house": "rods.family.house_rules.taught"}
    verbs = {"data house": ("verbs:draw_house_tasks", "Draw tasks in a world with house rules.")}


EXTENSION = HouseRules()
