"""What scikit-learn's estimators are made of: see `mpi_opt.sklearn`."""
