"""Readers, partitioning and built-in sets."""
