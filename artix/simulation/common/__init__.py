"""What all solvers of a step share: its start, its laws, what it is told and what it tells."""
