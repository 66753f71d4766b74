"""Operators C(v) and their exact wire format. No rank is known here."""
