"""Operations, a folder each: ``naive.py`` is the truth in plain PyTorch, its siblings are versions for a device."""
