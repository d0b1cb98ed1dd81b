"""The page over run folders (`rods dash`, docs/decisions/page.md)."""
