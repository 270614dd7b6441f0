"""Torture: what a store promises, put to the test by kills, power cuts, damage and failing drives."""
