"""The one outer loop."""
