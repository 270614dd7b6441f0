"""Generated conversations in the family's chat template, so that the tiny model answers in its form."""
