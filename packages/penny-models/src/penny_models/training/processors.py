"""What SGLang reads of a checkpoint beside its text model: the frame of ``config.json``, and the files next to it."""

from typing import Any

from penny_models.training.vocabulary import token_id

Json = dict[str, Any]


def _vision_config(model_type: str, out_hidden_size: int) -> Json:
    """Return a vision tower with no blocks: the architecture class needs one, text use never runs it."""
    return {
        "model_type": f"{model_type}_vision",
        "depth": 0,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 1,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": out_hidden_size,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [],
    }


def whole_config(architecture: str, model_type: str, text: Json) -> Json:
    """Return ``config.json`` around a ``text_config``."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "language_model_only": True,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "image_token_id": token_id("<|image_pad|>"),
        "video_token_id": token_id("<|video_pad|>"),
        "vision_start_token_id": token_id("<|vision_start|>"),
        "vision_end_token_id": token_id("<|vision_end|>"),
        "text_config": text,
        "vision_config": _vision_config(model_type, text["hidden_size"]),
    }


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
