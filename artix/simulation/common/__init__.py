"""What all solvers of a step share: its input, its start, its laws and its report."""
