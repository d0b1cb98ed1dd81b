"""What all tests share: property tests are never failed for the speed of the machine they run on."""

from hypothesis import HealthCheck, settings

settings.register_profile("rods", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rods")
