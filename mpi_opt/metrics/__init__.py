"""Recording, evaluation and the joined view."""
