"""The JSON files beside ``config.json`` that SGLang reads even of a text model."""

from typing import Any

from penny_models.training.vocabulary import token_id

Json = dict[str, Any]


def generation_config() -> Json:
    """Return ``generation_config.json``: an answer ends at either end marker."""
    return {
        "bos_token_id": token_id("<|endoftext|>"),
        "eos_token_id": [token_id("<|im_end|>"), token_id("<|endoftext|>")],
        "pad_token_id": token_id("<|endoftext|>"),
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
    }


def image_processor_config() -> Json:
    """Return ``preprocessor_config.json``; SGLang reads it even when it loads the language model only."""
    return {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": 1024, "longest_edge": 65536},
    }


def video_processor_config() -> Json:
    """Return ``video_preprocessor_config.json``, the image processor's sibling for videos."""
    image = image_processor_config()
    del image["image_processor_type"]
    return {**image, "video_processor_type": "Qwen3VLVideoProcessor"}
