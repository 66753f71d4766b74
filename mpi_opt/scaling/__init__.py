"""What runs cost on which network, by formula."""
