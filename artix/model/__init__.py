"""Articulations and states: what they are made of, and how to build them."""
