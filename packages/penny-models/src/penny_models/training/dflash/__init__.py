"""``tiny-27b-dflash2``: a DFlash2 draft for ``tiny-27b``, trained on that target's own hidden states and choices."""
