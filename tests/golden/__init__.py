"""What the product makes, pinned: tasks, variants, pools and verdicts, as text files beside what
makes them."""
