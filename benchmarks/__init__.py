"""Timings that anyone can repeat: `make bench`."""
