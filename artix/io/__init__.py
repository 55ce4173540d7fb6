"""Readers and writers of robot descriptions; ``load`` chooses by the suffix of a file."""
