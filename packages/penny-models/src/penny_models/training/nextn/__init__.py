"""The NEXTN stage: a trained model's MTP layer learns to draft three steps of the model's own text."""
