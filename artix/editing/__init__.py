"""Articulations made from others, and from an articulation back to a builder."""
