"""Tables and plots out of finished runs."""
