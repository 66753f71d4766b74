"""One file a method, readable beside its paper."""
