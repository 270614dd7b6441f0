"""Settings that cannot work are refused before anything starts, in a sentence with the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from penny_server.errors import PennyError
from penny_server.profiles import Launch, Surroundings, backends, load, parse_overrides, resolve
from penny_server.profiles.speculation import complete_chain

HERE = Surroundings(Path("/standin"), threads=1)


def launch_of(profile: str, *settings: str, device: str = "cuda") -> Launch:
    return resolve(load(profile), device, Path("/m"), HERE, parse_overrides(settings))  # type: ignore[arg-type]


def refused(profile: str, *settings: str, device: str = "cuda") -> PennyError:
    with pytest.raises(PennyError) as caught:
        launch_of(profile, *settings, device=device)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"steps": 3}, (3, 1, 4)),
        ({"steps": 3, "topk": 1, "tokens": 4}, (3, 1, 4)),
        ({"steps": 3, "topk": 1, "tokens": 8}, "must be speculative_num_steps \\+ 1 = 4, and it is 8"),
        ({"tokens": 4}, (3, 1, 4)),
        ({"steps": 0, "topk": 1, "tokens": 1}, "speculative_num_steps is 0"),
        ({"topk": 1}, "given alone"),
        ({"tokens": 1}, "drafts nothing"),
        ({"topk": 4, "steps": 3}, "the draft is a tree"),
        ({"topk": 4, "steps": 3, "tokens": 8}, (3, 4, 8)),
    ],
)
def test_case_la_02_speculation_flags_given_in_part(given: dict, expected: tuple | str) -> None:
    numbers = (given.get("steps"), given.get("topk"), given.get("tokens"))
    if isinstance(expected, tuple):
        assert complete_chain(*numbers) == expected
        return
    with pytest.raises(PennyError, match=expected) as caught:
        complete_chain(*numbers)
    assert caught.value.exit_code == 2


def test_half_a_chain_on_the_command_line_replaces_the_profiles_whole_chain() -> None:
    launch = launch_of("flash-next", "speculative_num_steps=2")
    assert launch.settings["speculative_num_draft_tokens"] == 3
    assert launch.origins["sglang.speculative_num_draft_tokens"] == "derived"
    assert launch_of("flash-next", "speculative_num_draft_tokens=2").settings["speculative_num_steps"] == 1


def test_speculation_turned_off_takes_its_settings_along() -> None:
    settings = launch_of("flash-next", "speculative_algorithm=").settings
    assert not [key for key in settings if key.startswith("speculative_")]
    settings = launch_of("flash-next", "enable_hierarchical_cache=false").settings
    assert not [key for key in settings if key.startswith("hicache_")]


@pytest.mark.parametrize(
    ("profile", "settings", "message"),
    [
        (
            "tiny-27b",
            ("speculative_num_steps=3",),
            "speculative_num_steps is set and speculative_algorithm is not",
        ),
        ("flash-next", ("speculative_adaptive_config=a.json",), "speculative_adaptive is not"),
        ("qwen38-27b-dflash2", ("speculative_num_steps=3",), "DFLASH drafts a block in one step"),
        (
            "qwen38-27b-dflash2",
            ("speculative_dflash_block_size=16",),
            "is 16 and speculative_num_draft_tokens is 8",
        ),
        ("qwen38-27b-dflash2", ("speculative_draft_window_size=4",), "less than the 8 draft tokens"),
        ("qwen38-27b-dflash2", ("speculative_token_map=m.pt",), "goes with NEXTN and EAGLE"),
        ("qwen38-27b-dflash2", ("speculative_num_draft_tokens=1",), "at least 2"),
        (
            "tiny-27b-nextn",
            ("speculative_eagle_topk=4", "speculative_num_steps=3", "speculative_num_draft_tokens=8"),
            "speculative_eagle_topk is 4, which makes the draft a tree, and only chains are verified here",
        ),
    ],
)
def test_speculation(profile: str, settings: tuple[str, ...], message: str) -> None:
    device = "cpu" if profile.startswith("tiny") else "cuda"
    assert message in refused(profile, *settings, device=device).message


@pytest.mark.parametrize(
    ("capability", "quantization", "given", "expected"),
    [
        ("12.0", "modelopt_fp4", "auto", "flashinfer_cutlass"),
        ("12.0", "modelopt_mixed", None, "flashinfer_cutlass"),
        ("12.0", "modelopt_fp4", "triton", None),
        ("12.0", "fp8", "auto", None),
        ("10.0", "modelopt_fp4", "auto", None),
        (None, "modelopt_fp4", "auto", None),
    ],
)
def test_experts_are_chosen_where_stock_would_guess(
    capability: str | None, quantization: str, given: str | None, expected: str | None
) -> None:
    settings = {"quantization": quantization, "moe_runner_backend": given}
    assert backends.complete(settings, capability).get("moe_runner_backend") == expected


def test_case_la_05_experts_of_nvfp4_on_sm120_are_cutlass() -> None:
    for setting in ("moe_runner_backend=auto", "moe_runner_backend="):
        launch = launch_of("flash-next", setting)
        assert launch.settings["moe_runner_backend"] == "flashinfer_cutlass"
        at = launch.args.index("--moe-runner-backend")
        assert launch.args[at + 1] == "flashinfer_cutlass"


@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ("fp4-gemm-backend=flashinfer_trtllm", "flashinfer_cutlass"),
        ("fp8-gemm-backend=flashinfer_trtllm", "cutlass"),
        ("moe_runner_backend=flashinfer_trtllm", "flashinfer_cutlass"),
        ("speculative_moe_runner_backend=flashinfer_trtllm_routed", "flashinfer_cutlass"),
        ("qsa_indexer_dtype=fp8_e4m3", "bfloat16"),
        ("linear_attn_verify_backend=flashinfer", "triton"),
        ("linear_attn_prefill_backend=cutedsl", "flashinfer or triton"),
    ],
)
def test_case_la_05_kernels_that_sm120_does_not_have(setting: str, instead: str) -> None:
    error = refused("flash-next", setting)
    assert "needs an SM100 GPU (compute capability 10.x), and this is 12.0" in error.message
    assert error.hint.endswith(f" to {instead}.")


@pytest.mark.parametrize(
    ("profile", "settings", "message"),
    [
        ("flash-next", ("attention_backend=fa4",), "only triton, trtllm_mha, flashinfer"),
        ("qwen38-27b-dflash2", ("prefill_attention_backend=trtllm_mha",), "reads no fp8_e4m3 KV cache"),
        ("flash-next", ("mamba_ssm_dtype=float32",), "keeps its recurrent state in bfloat16"),
        ("flash-next", ("linear_attn_backend=flashinfer",), "with extra_buffer needs triton"),
        ("flash-next", ("linear_attn_decode_backend=helion",), "is for KDA layers"),
        ("flash-next", ("image_processor_backend=torchvision",), "media_device is cpu"),
        ("flash-next", ("media_device=cuda:0", "image_processor_backend=pil"), "media_device is cuda:0"),
    ],
)
def test_backends(profile: str, settings: tuple[str, ...], message: str) -> None:
    assert message in refused(profile, *settings).message


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (("max_total_tokens=1000001",), "not a multiple of the page of 64", "1000000 and 1000064"),
        (("max_total_tokens=32",), "less than one page of 64", ""),
        (("max_total_tokens=many",), "such as 524288, 512Ki or 1M, and got 'many'", ""),
        (("chunked_prefill_size=100",), "not a multiple of the page of 64", "64 and 128"),
        (("max_running_requests=6",), "about 6 each, 36 in all", "to 36, or max_running_requests to 4"),
        (("max_mamba_cache_size=16",), "about 6 each, 24 in all", "to 24, or max_running_requests to 2"),
        (("max_mamba_cache_size=0",), "max_mamba_cache_size is 0; it takes 1 or more", ""),
        (("mamba_track_interval=100",), "not a multiple of the page of 64", "page boundaries"),
        (("mamba_radix_cache_strategy=no_buffer",), "works with pages of 1 token", ""),
        (("mamba_max_states_per_path=0",), "above zero, or -1", ""),
        (("mem_fraction_static=1.5",), "between 0 and 1", ""),
    ],
)
def test_pools(settings: tuple[str, ...], message: str, hint: str) -> None:
    error = refused("flash-next", *settings)
    assert message in error.message
    assert hint in error.hint


def test_slots_without_speculation_are_fewer() -> None:
    """Stock's own ratio: three for running and cached states, and the tracking buffers (two, or one when lazy)."""
    off = "speculative_algorithm="
    assert launch_of("flash-next", off, "max_mamba_cache_size=20").settings["max_mamba_cache_size"] == 20
    assert "about 5 each, 20 in all" in refused("flash-next", off, "max_mamba_cache_size=19").message
    lazy = "mamba_radix_cache_strategy=extra_buffer_lazy"
    assert "about 4 each, 16 in all" in refused("flash-next", off, lazy, "max_mamba_cache_size=15").message


def test_sizes_with_suffixes_as_sglang_reads_them() -> None:
    """1M is 15,625 pages of 64, 25.6k is 400, 1Ki is 16, and 1k is none."""
    for size in ("1M", "25.6k", "1Ki"):
        assert launch_of("flash-next", f"max_total_tokens={size}").settings["max_total_tokens"] == size
    assert "max_total_tokens is 1000," in refused("flash-next", "max_total_tokens=1k").message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ("ple_backend=nvme", "ple_nvme_model=/o", "ple-offload-embedding=true"),
            "two places for the n-gram tables",
        ),
        (
            ("ple_backend=nvme", "ple_nvme_model=/o", "ple_offload_backend=file"),
            "two places for the n-gram tables",
        ),
        (("ple_offload_backend=file",), "ple_backend is ram and ple_offload_backend is file"),
        (("ple_backend=nvme",), "ple_nvme_model is not set"),
        (("ple_nvme_model=/o",), "set ple_backend to nvme too"),
        (("ple_backend=", "ple_offload_backend=file"), "has its own memory"),
        (("ple_offload_dir=/x",), "ple_offload_backend is not file"),
        (("hicache_storage_backend=",), "is set and hicache_storage_backend is not"),
        (("hicache_mem_layout=layer_first",), "needs page_first or page_first_direct"),
        (("disable_radix_cache=true",), "both set"),
        (("json_model_override_args={",), "not valid JSON"),
        (("json_model_override_args=[1]",), "takes one value"),
    ],
)
def test_tiers_and_tables(settings: tuple[str, ...], message: str) -> None:
    assert message in refused("flash-next", *settings).message


def test_host_tier_settings_without_a_host_tier() -> None:
    error = refused("tiny-27b", "hicache_size=4", device="cpu")
    assert error.message == (
        "hicache_size is set and enable_hierarchical_cache is not, so there is no host tier."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ("reasoning_effort=hgih",),
            "takes one of none, minimal, low, medium, high, xhigh, max, and got 'hgih'",
        ),
        (("media_device=gpu",), "takes cpu or cuda:N, and got 'gpu'"),
        (("ple_backend=disk",), "takes one of ram, nvme"),
        (("online_fp8=yes",), "takes true or false, and got 'yes'"),
        (("yarn_factor=0.5",), "takes a number of 1 or more"),
        (("build_jobs=0",), "above zero"),
        (("reasoning_efort=high",), "Did you mean 'reasoning_effort'"),
        (("tp_size=3",), "tp_size is 3, and the profile flash-next is made for 1, 2 GPUs"),
    ],
)
def test_options(settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(PennyError) as caught:
        launch_of("flash-next", *settings)
    assert caught.value.exit_code == 2
    assert message in caught.value.message


def test_yarn_factor_where_there_is_no_yarn() -> None:
    assert "this profile uses no YaRN" in refused("tiny-27b", "yarn_factor=2", device="cpu").message
