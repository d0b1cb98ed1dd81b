"""Worlds from outside: whether a user's own environment keeps the promises of the seam (`rods env check`)."""
