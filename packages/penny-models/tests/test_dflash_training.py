"""The DFlash2 draft of ``tiny-27b``: its text, its training, its measured acceptance."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from small_draft import SMALL, filled, normal
from torch import Tensor

from penny_models import tiny
from penny_models.training.continuations import choose, continue_prompts, repeated_share, slices
from penny_models.training.dflash.acceptance import Acceptance, measure, walk_text
from penny_models.training.dflash.batches import Batch, Sizes, continuations, draw_anchors, training_batches
from penny_models.training.dflash.config import DraftShape, draft_config
from penny_models.training.dflash.losses import draft_losses, slot_weights, with_choice
from penny_models.training.dflash.model import DraftModel, initialise
from penny_models.training.dflash.target import Seen, Target
from penny_models.training.dflash.train import Trainer
from penny_models.training.processors import Json
from penny_models.training.shards import TokenStream

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(tiny.path("tiny-27b"), (1, 3, 5, 6), CPU)


@pytest.fixture(scope="module")
def config() -> Json:
    return draft_config(json.loads((tiny.path("tiny-27b") / "config.json").read_text()))


@pytest.fixture(scope="module")
def code(own_streams: dict[str, TokenStream]) -> Tensor:
    return torch.from_numpy(own_streams["code"].tokens.astype("int64"))


def test_features_and_hidden_states_are_transformers(target: Target, code: Tensor) -> None:
    tokens = code[:128].view(2, 64)
    seen = target.see(tokens)
    with torch.no_grad():
        out = target.model(input_ids=tokens, output_hidden_states=True)
    wanted = torch.cat([out.hidden_states[layer + 1] for layer in (1, 3, 5, 6)], dim=-1)
    torch.testing.assert_close(seen.features, wanted, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(F.linear(seen.hidden, target.head), out.logits, rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(
        target.see(tokens[:, :50]).features, seen.features[:, :50], rtol=1e-3, atol=1e-3
    )


def test_greedy_continuations_are_the_models_best_tokens(target: Target, code: Tensor) -> None:
    prompts = code[:60].view(3, 20)
    heat = torch.tensor([0.0, 0.0, 1.0])
    text = continue_prompts(target.model, prompts, 12, heat, seed=5)
    assert torch.equal(text[:, :20], prompts)
    with torch.no_grad():
        best = target.model(input_ids=text).logits.argmax(-1)
    agree = best[:, 19:-1] == text[:, 20:]
    assert agree[:2].all()
    assert not agree[2].all(), "a row at temperature 1 should not be greedy"
    assert torch.equal(continue_prompts(target.model, prompts, 12, heat, seed=5), text)
    assert not torch.equal(continue_prompts(target.model, prompts, 12, heat, seed=6)[2], text[2])


def test_draws_have_the_softmax_law() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])
    count = 40_000
    drawn = choose(logits.expand(count, 4), torch.full((count,), 0.5), torch.Generator().manual_seed(0))
    wanted = torch.softmax(logits / 0.5, 0)
    found = torch.bincount(drawn, minlength=4) / count
    assert ((found - wanted).abs() < 4 * (wanted * (1 - wanted) / count).sqrt()).all()


def test_repeated_4_grams() -> None:
    # Nine tokens have six 4-grams; 1212, 2121 and 1212 again: of six, two distinct.
    assert repeated_share(torch.tensor([[1, 2, 1, 2, 1, 2, 1, 2, 1]])) == 4 / 6
    assert repeated_share(torch.arange(9).view(1, 9)) == 0.0


def test_slices_are_parts_of_the_stream() -> None:
    found = slices(torch.arange(100, 130), 200, 4, torch.Generator().manual_seed(0))
    assert torch.equal(found - found[:, :1], torch.arange(4).expand(200, 4))
    assert (int(found.min()), int(found.max())) == (100, 129)


# --- training


def test_anchors_are_different_and_their_blocks_end_in_the_text() -> None:
    first = torch.tensor([1, 20])
    anchors = draw_anchors(first, 40, 13, 8, torch.Generator().manual_seed(3))
    assert sorted(anchors[1].tolist()) == list(range(20, 33)), "13 anchors fit from 20 to 40 - 8"
    assert len(set(anchors[0].tolist())) == 13
    assert anchors[0].min() >= 1
    assert anchors[0].max() <= 32


def test_the_label_takes_the_place_of_the_last_candidate() -> None:
    candidates = torch.tensor([[5, 6, 7], [5, 6, 7]])
    assert with_choice(candidates, torch.tensor([6, 9])).tolist() == [[5, 6, 7], [5, 6, 9]]


def test_losses_equal_plain_loops(target: Target, code: Tensor, config: Json) -> None:
    draft = filled(DraftModel(DraftShape.read(config)), 6)
    tokens = code[:128].view(2, 64)
    anchors = torch.tensor([[3, 40], [56, 20]])
    batch = Batch(tokens, anchors, torch.tensor([True, False]))
    found = draft_losses(draft, target, batch)
    (found.unary + found.selector).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in draft.parameters())

    with torch.no_grad():
        out = target.model(input_ids=tokens, output_hidden_states=True)
        features = torch.cat([out.hidden_states[layer + 1] for layer in (1, 3, 5, 6)], dim=-1)
        unary_sum = selector_sum = weight_sum = 0.0
        for row in range(2):
            for anchor in anchors[row].tolist():
                ids = torch.tensor([int(tokens[row, anchor])] + [4089] * 7)
                embedded = target.embed(ids).view(1, 1, 8, -1)
                hidden = draft(features[row : row + 1], embedded, torch.tensor([[anchor]]))[0, 0]
                for slot in range(1, 8):
                    weight = math.exp(-(slot - 1) / 4)
                    logits = target.head @ hidden[slot]
                    token, before = int(tokens[row, anchor + slot]), int(tokens[row, anchor + slot - 1])
                    judged = torch.softmax(out.logits[row, anchor + slot - 1], -1)
                    label = F.one_hot(torch.tensor(token), 4096).float() if row == 0 else judged
                    unary_sum += weight * float(-(label * logits.log_softmax(-1)).sum())
                    ids_k = logits.topk(8).indices.tolist()
                    if token not in ids_k:
                        ids_k[-1] = token
                    selector = draft.candidate_selector
                    query = selector.predecessor_codebook[before] * selector.hidden_projection(hidden[slot])
                    scores = logits[ids_k] + selector.successor_codebook[ids_k] @ query
                    kept = label[ids_k] / label[ids_k].sum()
                    selector_sum += weight * float(-(kept * scores.log_softmax(-1)).sum())
                    weight_sum += weight
    assert found.unary.item() == pytest.approx(unary_sum / weight_sum, rel=1e-3)
    assert found.selector.item() == pytest.approx(selector_sum / weight_sum, rel=2e-3)


def test_slot_weights_fall_and_have_mean_one() -> None:
    weights = slot_weights(7, CPU)
    assert float(weights.mean()) == pytest.approx(1.0)
    assert float(weights[4] / weights[0]) == pytest.approx(math.exp(-1))


def test_a_new_draft_answers_with_the_embedding_it_was_given(target: Target, config: Json) -> None:
    torch.manual_seed(0)
    draft = DraftModel(DraftShape.read(config))
    initialise(draft, target.final_norm)
    embedded = target.embed(torch.arange(8)).view(1, 1, 8, -1)
    with torch.no_grad():
        hidden = draft(normal(1, 4, 512), embedded, torch.tensor([[2]]))
        wanted = target.text.norm(embedded)
    torch.testing.assert_close(hidden, wanted, rtol=1e-4, atol=1e-4)


SMALL_SIZES = Sizes(
    continuations=4,
    generated=2,
    prompts=(40, 44),
    length=64,
    rows=2,
    blocks=12,
    text_length=128,
    text_rows=1,
    text_blocks=16,
)


def test_batches_start_blocks_in_the_generated_text(target: Target, code: Tensor) -> None:
    stream = code.int()
    sizes = Sizes(6, 2, (8, 12, 16), 40, 4, 5, 64, 2, 9)
    made = continuations(target, stream, sizes, seed=1)
    assert made.tokens.shape == (6, 40)
    assert made.prompts.tolist() == [8, 8, 12, 12, 16, 16]
    assert made.greedy.tolist() == [True, False] * 3
    batches = training_batches(stream, made, sizes, block_size=8, seed=1)
    text, first, second, again = (next(batches) for _ in range(4))
    assert text.tokens.shape == again.tokens.shape == (2, 64)
    assert not text.greedy.any()
    for batch in (first, second):
        assert batch.anchors.shape == (4, 5)
        for tokens, anchors, greedy in zip(batch.tokens, batch.anchors, batch.greedy, strict=True):
            row = next(i for i in range(6) if torch.equal(made.tokens[i].long(), tokens))
            assert anchors.min() >= made.prompts[row]
            assert anchors.max() <= 32
            assert greedy == made.greedy[row]


# --- acceptance


@pytest.fixture(scope="module")
def fitted(target: Target, code: Tensor) -> tuple[DraftModel, Tensor]:
    """A draft of one layer fitted to one greedy text, and that text [1, 64] after a prompt of 16 tokens."""
    torch.manual_seed(0)
    raw = draft_config(json.loads((tiny.path("tiny-27b") / "config.json").read_text()))
    raw |= {"num_hidden_layers": 1, "layer_types": ["full_attention"]}
    draft = DraftModel(DraftShape.read(raw))
    initialise(draft, target.final_norm)
    text = continue_prompts(target.model, code[40:56].view(1, 16), 48, torch.zeros(1), seed=0)
    trainer = Trainer(draft, target, graph=False)
    generator = torch.Generator().manual_seed(0)
    for step in range(16):
        anchors = draw_anchors(torch.tensor([16]), 64, 40, 8, generator)
        trainer.step(Batch(text, anchors, torch.tensor([True])), 1.0 - step / 16)
    return draft.eval(), text


def served(draft: DraftModel, target: Target, prompt: list[int], new: int) -> tuple[list[int], list[int]]:
    """A greedy server by hand: the target runs over every block from the start. Returns its text and its accepts."""
    text = list(prompt)
    text.append(int(target.model(input_ids=torch.tensor([text])).logits[0, -1].argmax()))
    accepts: list[int] = []
    while len(text) + 7 <= len(prompt) + new:
        out = target.model(input_ids=torch.tensor([text[:-1]]), output_hidden_states=True)
        features = torch.cat([out.hidden_states[layer + 1] for layer in (1, 3, 5, 6)], dim=-1)
        embedded = target.embed(torch.tensor([text[-1]] + [4089] * 7)).view(1, 1, 8, -1)
        hidden = draft(features, embedded, torch.tensor([[len(text) - 1]]))[0, 0]
        proposal = [text[-1]]
        for slot in range(1, 8):
            logits = target.head @ hidden[slot]
            best = logits.topk(8).indices
            selector = draft.candidate_selector
            query = selector.predecessor_codebook[proposal[-1]] * selector.hidden_projection(hidden[slot])
            scores = logits[best] + selector.successor_codebook[best] @ query
            proposal.append(int(best[scores.argmax()]))
        verified = (
            target.model(input_ids=torch.tensor([text + proposal[1:]])).logits[0, len(text) - 1 :].argmax(-1)
        )
        kept = 0
        while kept < 7 and proposal[kept + 1] == int(verified[kept]):
            kept += 1
        text += [*proposal[1 : kept + 1], int(verified[kept])]
        accepts.append(kept)
    return text, accepts


@torch.no_grad()
def test_the_walk_accepts_what_a_greedy_server_accepts(
    fitted: tuple[DraftModel, Tensor], target: Target
) -> None:
    draft, text = fitted
    served_text, accepts = served(draft, target, text[0, :16].tolist(), 48)
    assert served_text[:64] == text[0].tolist()[: len(served_text)]
    found = walk_text(draft, target, text, 16, 0.0, seed=0)
    assert found.verified == len(accepts)
    assert found.accepted.tolist() == [sum(kept > slot for kept in accepts) for slot in range(7)]
    assert found.length == pytest.approx(1 + sum(accepts) / len(accepts))
    assert found.length > 1.5, "a draft fitted to this text should propose some of it"
    assert len(set(accepts)) > 1, "blocks of one length would show nothing"


class MarkovTarget:
    """A target whose next token depends on the last one alone, so that every chance can be added up."""

    head = normal(40, 16, seed=11)
    states = normal(40, 16, seed=12) * 0.6
    known = normal(40, 32, seed=13)
    inputs = normal(40, 16, seed=14)

    def see(self, tokens: Tensor) -> Seen:
        return Seen(self.known[tokens], self.states[tokens])

    def embed(self, tokens: Tensor) -> Tensor:
        return self.inputs[tokens]

    @property
    def law(self) -> Tensor:
        """The chance [40, 40] of a token (column) after another (row)."""
        return (self.states @ self.head.T).softmax(-1)


@torch.no_grad()
def test_sampled_blocks_are_accepted_with_the_law_of_rejection_sampling() -> None:
    chain, draft, count = MarkovTarget(), filled(DraftModel(SMALL), 21), 20_000
    generator = torch.Generator().manual_seed(1)
    columns = [torch.full((count,), 3), torch.full((count,), 8)]
    for _ in range(3):
        columns.append(torch.multinomial(chain.law[columns[-1]], 1, generator=generator)[:, 0])
    found = walk_text(draft, chain, torch.stack(columns, 1), 1, 1.0, seed=2)  # type: ignore[arg-type]
    assert found.verified == count

    # The chance that slots 0 to s are accepted: over all paths, the product of min(p, q) at every step.
    embedded = chain.embed(torch.tensor([8, 39, 39, 39])).view(1, 1, 4, -1)
    hidden = draft(chain.known[[3]].unsqueeze(0), embedded, torch.tensor([[1]]))[0, 0]
    reached = F.one_hot(torch.tensor(8), 40).float()
    for slot in range(3):
        best = draft.unary_logits(hidden[slot + 1], chain.head).topk(3)
        onward = torch.zeros(40)
        for before in range(40):
            proposed = torch.zeros(40)
            token = torch.tensor(before)
            scores = draft.candidate_selector.scores(best.indices, best.values, hidden[slot + 1], token)
            proposed[best.indices] = scores.softmax(-1)
            onward += reached[before] * torch.minimum(chain.law[before], proposed)
        reached = onward
        chance = float(reached.sum())
        spread = math.sqrt(chance * (1 - chance) / count)
        assert spread > 0
        assert float(found.accepted[slot]) / count == pytest.approx(chance, abs=4 * spread)


def test_acceptance_counts_the_bonus_token() -> None:
    found = Acceptance(10, torch.tensor([5, 4, 1]))
    assert found.length == 2.0
    assert found.by_slot == [0.5, 0.8, 0.25]


def test_only_two_temperatures_are_measured(fitted: tuple[DraftModel, Tensor], target: Target) -> None:
    draft, text = fitted
    with pytest.raises(ValueError, match=r"temperature 0 or 1, not 0\.5"):
        walk_text(draft, target, text, 16, 0.5, seed=0)


def test_measure_weighs_kinds_by_their_verifies(
    fitted: tuple[DraftModel, Tensor], target: Target, code: Tensor
) -> None:
    draft, text = fitted
    found = measure(draft, target, {"known": text[0, :32], "other": code}, 2, 32, 48, seed=3)
    rows = found["temperature_0"]
    verifies = [rows[kind]["verifies"] for kind in ("known", "other")]
    accepts = [(rows[kind]["tokens_per_verify"] - 1) * rows[kind]["verifies"] for kind in ("known", "other")]
    assert rows["all"]["verifies"] == sum(verifies)
    assert rows["all"]["tokens_per_verify"] == pytest.approx(1 + sum(accepts) / sum(verifies))
    assert rows["known"]["tokens_per_verify"] > rows["other"]["tokens_per_verify"]
    assert set(found["temperature_1"]["all"]) == {
        "tokens_per_verify",
        "accepted_by_slot",
        "verifies",
        "repeated_4_grams",
    }


# --- export and the whole run
