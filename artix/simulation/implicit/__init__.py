"""The converged implicit step."""
