"""No name is left in logs, metrics and Events, wherever it stands; what is no name stays."""

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusharing.bundling.texts import anonymous_log, anonymous_metrics
from gpusharing.cli.vocabulary import vocabulary
from gpusharing.snapshots import file
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import World

NAMES: Final = ("acme-research", "zebra.acme.com", "notebook-of-jane", "acme_label", "ip-10-0-0-1.acme.internal")
GONE: Final = ("former-job-x7k2p", "quarterly-numbers", "zanzibar", "10.11.12.13", "jané")
"""Of which the World knows nothing."""


def world(*events: Any) -> World:
    namespace, node, pod, label, other = NAMES
    return World(
        minor=37,
        taken_at="",
        namespaces=[{"metadata": {"name": namespace, "labels": {"team": label}}}],
        nodes=[{"metadata": {"name": node}}, {"metadata": {"name": other}}],
        pods=[{"metadata": {"name": pod, "namespace": namespace}, "spec": {}}],
        events=events,
    )


WORDS: Final = Pseudonyms.of(world(), salt=b"salt", vocabulary=vocabulary())
names = st.sampled_from(NAMES + GONE)
between = st.sampled_from([" ", "/", ":", ", ", '"', "'", "=", "\n", "\\n", ".", " is not ready: ", "(", "\t", "\\"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Names with something before, between and after them."""
    parts = draw(st.lists(st.tuples(between, names), min_size=1, max_size=6))
    return "".join(gap + name for gap, name in parts) + draw(between)


@settings(deadline=None)
@given(texts())
def test_no_name_stays_in_a_message(text: str) -> None:
    found = WORDS.prose(text)
    assert [name for name in NAMES + GONE if name in found] == []


@settings(deadline=None)
@given(st.recursive(texts(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3)))
def test_no_name_stays_in_a_line_of_a_log(value: Any) -> None:
    lines = [json.dumps({"event": "write refused", "about": value}), json.dumps(value), str(value)]
    found = anonymous_log("\n".join(lines), WORDS)
    assert [name for name in NAMES + GONE if name in found] == []


@settings(deadline=None)
@given(texts())
def test_no_name_stays_in_metrics(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    found = anonymous_metrics(f'gpusharing_x{{namespace="{escaped}",claim="a"}} 1\n{text}\n# HELP x {text}\n', WORDS)
    assert [name for name in NAMES + GONE if name in found] == []


@settings(deadline=None)
@given(texts(), names)
def test_no_name_stays_in_events(message: str, name: str) -> None:
    event = {
        "metadata": {"name": f"{name}.17a8", "namespace": name},
        "involvedObject": {"kind": "Pod", "name": name, "namespace": name, "uid": "u"},
        "reason": "FailedScheduling",
        "message": message,
    }
    seen = world(event)
    found = file.dumps(anonymous(seen, Pseudonyms.of(seen, salt=b"salt", vocabulary=vocabulary())))
    assert [one for one in (*NAMES, name) if one in found] == []
    (hidden,) = file.loads(found).events
    assert [one for one in GONE if one in hidden["message"]] == []
    assert hidden["reason"] == "FailedScheduling"


@pytest.mark.parametrize(
    "text",
    [
        "0/2 nodes are available: 2 cannot allocate all claims.",
        "2026-11-20T10:17:14.123456Z",
        "gpusharing.controller.loop",
        "gpu-0-mig-1g10gb-19-2 of GPU-8f6b1c2d-0000-1111-2222-333344445555",
        "81559Mi, 20Gi, 0.25s, v1.37.1",
        "write conflict",
    ],
)
def test_what_is_no_name_stays(text: str) -> None:
    assert WORDS.prose(text) == text


def test_a_word_is_the_same_everywhere() -> None:
    pod = WORDS.name("notebook-of-jane")
    assert re.fullmatch(r"x[0-9]{6}-[0-9a-f]{8}", pod)
    log = json.dumps({"event": "prepared", "claim": "acme-research/notebook-of-jane", "gpu": 0, "ok": True})
    changed = json.loads(anonymous_log(log, WORDS))
    assert changed == {
        "event": "prepared", "claim": f"{WORDS.name('acme-research')}/{pod}", "gpu": 0, "ok": True,
    }  # fmt: skip
    assert WORDS.prose("zanzibar") == WORDS.prose("zanzibar") != WORDS.prose("zanzibars")


def test_metrics_are_metrics_still() -> None:
    text = (
        "# HELP gpusharing_claims Claims.\n# TYPE gpusharing_claims gauge\n"
        'gpusharing_claims{mode="MPS",namespace="acme-research"} 2\ngpusharing_up 1\n'
    )
    found = anonymous_metrics(text, WORDS).splitlines()
    namespace = WORDS.name("acme-research")
    assert found == [
        "# TYPE gpusharing_claims gauge",
        f'gpusharing_claims{{mode="MPS",namespace="{namespace}"}} 2',
        "gpusharing_up 1",
    ]


def test_a_deep_line_stops_nothing() -> None:
    line = "[" * 100_000
    assert anonymous_log(line, WORDS) == f"{line}\n"
