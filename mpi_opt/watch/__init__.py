"""A run watched from outside while it goes on: by its files alone, without MPI."""
