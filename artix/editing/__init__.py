"""Articulations made of others."""
