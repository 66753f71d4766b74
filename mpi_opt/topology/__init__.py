"""Graphs, mixing matrices, their spectrum and the admissible consensus rate. No MPI is known here."""
