"""Rules of flows as JSON values and in manifests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidManifest, InvalidRequest
from odfabric.formats.manifests.flow_manifest import parse_flow_manifests
from odfabric.formats.manifests.flow_rule import parse_rule, rule_value
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.model.jobs.flow import Backoff, Cron, Every, FlowKind, FlowRule, Overlap, Reactive, RetryPolicy

LIMITS = TextLimits(1 << 16, 20, 1000)
MANIFEST = """
kind: odfabric/Flow
version: 1
content:
  dataset: weather
  flow: poll
  rule:
    trigger: {every: 1h}
    latestStart: 10m
---
kind: odfabric/Flow
version: 1
content: {dataset: ann/report, flow: transform, rule: {trigger: {onInputs: {records: 5}}}}
"""

triggers = st.one_of(
    st.builds(Every, st.integers(1, 10**7)),
    st.builds(Cron, st.text(max_size=20), st.text(max_size=20)),
    st.builds(Reactive, st.integers(0, 10**9), st.integers(0, 86_400)),
)
rules = st.builds(
    FlowRule,
    trigger=triggers,
    retry=st.builds(
        RetryPolicy,
        attempts_max=st.integers(0, 20),
        pause_s=st.integers(1, 86_400),
        backoff=st.sampled_from(list(Backoff)),
    ),
    overlap=st.sampled_from(list(Overlap)),
    latest_start_s=st.none() | st.integers(0, 86_400),
    failures_max=st.none() | st.integers(1, 100),
    fetch_uncacheable=st.booleans(),
    recompute=st.booleans(),
)


@given(rules)
def test_a_rule_is_read_as_it_is_written(rule: FlowRule) -> None:
    assert parse_rule(json.loads(json.dumps(rule_value(rule)))) == rule


def test_what_is_left_out_has_its_default() -> None:
    assert parse_rule({"trigger": {"every": "1h"}}) == FlowRule(trigger=Every(3600))
    assert parse_rule({"trigger": {"every": "1h"}, "stopAfterFailures": None}).failures_max is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_other_values_are_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_rule({"trigger": value})
    assert refused.value.place is not None
    assert (refused.value.place.field or "").startswith("trigger")


def test_a_manifest_holds_several_flows() -> None:
    first, second = parse_flow_manifests(MANIFEST, file="flows.yaml", limits=LIMITS)
    assert (first.dataset, first.kind, first.rule.latest_start_s) == ("weather", FlowKind.POLL, 600)
    assert (second.dataset, second.rule.trigger) == ("ann/report", Reactive(records_min=5))


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("odfabric/Flow", "DatasetSnapshot", 2, "odfabric/Flow"),
        ("version: 1", "version: 2", 3, "version"),
        ("flow: poll", "flow: pull", 6, "poll, transform"),
        ("every: 1h", "every: often", 8, "no duration"),
        ("latestStart", "latest", 9, "not known"),
        ("dataset: weather", "dataset: 7", 5, "name of a dataset"),
        ("  flow: poll\n", "", 5, "content"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_told_with_its_place(old: str, new: str, line: int, told: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        list(parse_flow_manifests(MANIFEST.replace(old, new, 1), file="flows.yaml", limits=LIMITS))
    place = refused.value.place
    assert place is not None
    assert (place.file, place.line) == ("flows.yaml", line)
    assert told in f"{refused.value} {refused.value.hint}"
