"""nano: a policy of half a million parameters, built and warm-started on the spot for desk."""
