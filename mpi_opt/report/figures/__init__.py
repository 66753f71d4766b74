"""The figures of a report, one file a figure. Each is made of numbers, on no display, by matplotlib's objects alone."""
