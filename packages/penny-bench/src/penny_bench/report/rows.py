"""One row per concurrency."""

from collections import Counter
from dataclasses import dataclass

from penny_bench.measure import DecodeResult
from penny_bench.stats import Summary, summarise


@dataclass(frozen=True)
class Row:
    """Summary of the measured groups of one concurrency.

    Attributes:
        concurrency: streams of a group.
        aggregate: decode rate of all streams in their common window, over the runs, tokens/s.
        stream: decode rate of single streams, over all streams of all runs, tokens/s.
        whole: tokens over the whole group with prefill and tail, over the runs, tokens/s.
        ttft: time to the first token of any kind, over all streams, s.
        prompt_tokens, cached_tokens, output_tokens: over all streams, as the server counted.
        failures: how many streams failed, by message.
    """

    concurrency: int
    aggregate: Summary | None
    stream: Summary | None
    whole: Summary | None
    ttft: Summary | None
    prompt_tokens: Summary | None
    cached_tokens: Summary | None
    output_tokens: Summary | None
    failures: dict[str, int]


def rows(result: DecodeResult) -> list[Row]:
    """The rows of a result, in the order of its plan. Warm-ups and failed streams are in no summary."""
    made = []
    for concurrency in result.plan.concurrency:
        groups = result.measured(concurrency)
        records = [record for group in groups for record in group.records]
        good = [record for record in records if record.failure is None]
        made.append(
            Row(
                concurrency,
                aggregate=summarise(group.rates.aggregate for group in groups),
                stream=summarise(rate for group in groups for rate in group.rates.streams),
                whole=summarise(group.rates.whole for group in groups),
                ttft=summarise(record.ttft for record in good),
                prompt_tokens=summarise(record.prompt_tokens for record in good),
                cached_tokens=summarise(record.cached_tokens for record in good),
                output_tokens=summarise(record.output_tokens for record in good),
                failures=dict(Counter(record.failure.message for record in records if record.failure)),
            )
        )
    return made
