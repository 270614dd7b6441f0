"""Greedy output equals transformers' own on the same weights, token by token, in float32."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from prompts import ALL, LONG

NEW_TOKENS = 64


def expected(reference, ids: list[int], new_tokens: int = NEW_TOKENS, **options: object) -> list[int]:
    """What transformers continues tokens with; ``options`` go to its ``generate``."""
    prompt = torch.tensor([ids])
    with torch.inference_mode():
        out = reference.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),  # else prompt tokens equal to the padding are masked
            max_new_tokens=new_tokens,
            pad_token_id=0,
            do_sample=False,
            **options,
        )
    return out[0, len(ids) :].tolist()


@pytest.mark.parametrize("index", range(20))
def test_tokens_equal_transformers(server, tokenizer, reference, index: int) -> None:
    ids = tokenizer(ALL[index])["input_ids"]
    answer = server.generate(ids, NEW_TOKENS)
    assert answer["output_ids"] == expected(reference, ids)


def test_repeated_prefix_is_cached_and_changes_nothing(server, tokenizer, reference) -> None:
    ids = tokenizer(LONG[1] + "# a tail that no other test sends\n")["input_ids"]
    first = server.generate(ids, NEW_TOKENS)
    second = server.generate(ids, NEW_TOKENS)
    longer = ids + first["output_ids"] + tokenizer("\n\nclass Next:\n")["input_ids"]
    third = server.generate(longer, NEW_TOKENS)
    assert second["meta_info"]["cached_tokens"] >= 64 * ((len(ids) - 1) // 64)
    assert third["meta_info"]["cached_tokens"] >= second["meta_info"]["cached_tokens"]
    assert second["output_ids"] == first["output_ids"] == expected(reference, ids)
    assert third["output_ids"] == expected(reference, longer)


def test_eight_streams_at_once_give_what_each_gives_alone(server, tokenizer) -> None:
    prompts = [tokenizer(text)["input_ids"] for text in ALL[:4] + ALL[8:10] + LONG[2:4]]
    alone = [server.generate(ids, NEW_TOKENS)["output_ids"] for ids in prompts]
    server.post("/flush_cache", {})
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda ids: server.generate(ids, NEW_TOKENS)["output_ids"], prompts))
    assert together == alone


def test_logprobs_are_the_model_own(server, tokenizer, reference) -> None:
    ids = tokenizer(ALL[8])["input_ids"]
    body = {
        "input_ids": ids,
        "sampling_params": {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 5,
        "logprob_start_len": 0,
    }
    meta = server.post("/generate", body).json()["meta_info"]
    output = [token for _, token, _ in meta["output_token_logprobs"]]
    with torch.inference_mode():
        logits = reference(torch.tensor([ids + output])).logits[0].float()
    wanted = torch.log_softmax(logits, -1)
    for position, (logprob, token, _) in enumerate(meta["output_token_logprobs"]):
        assert logprob == pytest.approx(wanted[len(ids) - 1 + position, token].item(), abs=2e-4)
    for position, (logprob, token, _) in enumerate(meta["input_token_logprobs"][1:]):
        assert logprob == pytest.approx(wanted[position, token].item(), abs=2e-4)
    for position, top in enumerate(meta["output_top_logprobs"]):
        row = wanted[len(ids) - 1 + position]
        assert [token for _, token, _ in top] == row.topk(5).indices.tolist()
        assert sum(torch.tensor([lp for lp, _, _ in top]).exp()).item() == pytest.approx(
            row.topk(5).values.exp().sum().item(), abs=1e-4
        )
