"""Scaling tests: one job on several numbers of ranks, run here or by SLURM, and what came of it."""
