"""Benchmarks of artix beside its peers; ``python -m benchmarks`` runs them."""
