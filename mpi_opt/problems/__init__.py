"""What is minimised, on one shard. No rank is known here."""
