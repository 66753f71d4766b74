"""Comparisons and rates of the papers: ``python -m mpi_opt.studies.NAME`` makes a page of ``docs/``."""
