"""How a policy reads and writes: `tags` (Environment Tuning, Appendix G), `hermes` (Hermes/Qwen), `compact` (nano)."""
