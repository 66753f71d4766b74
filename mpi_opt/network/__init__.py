"""What performs the requests of steps: over MPI, or in lockstep."""
