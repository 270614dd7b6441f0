"""How the tiny checkpoints are made: corpus, tokenizer, training, evaluation, export.

Run it as ``python -m penny_models.training``; ``--help`` lists the steps.
"""
