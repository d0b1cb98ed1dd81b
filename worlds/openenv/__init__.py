"""OpenEnv environments and TRL's environment classes as environments (docs/openenv.md), and ours as
OpenEnv servers. Only classes that need OpenEnv's package import it."""
