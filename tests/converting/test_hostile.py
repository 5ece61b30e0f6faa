"""Whatever somebody writes, a conversion ends, says what it did not do, and converts its own output to itself."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from converting.test_inputs import INPUTS, read
from gpusharing.converting.conversion import File, convert
from gpusharing.findings.converting import NOT_CONVERTED

TEXTS = [read(path) for path in INPUTS]
PIECES = [
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    "...\n",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "|\n",
    "!!",
    "null",
    "1e999",
    "\t",
    "\x00",
]
# A busy machine may take ten times as long.
SECONDS = 60


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """One of the inputs with a few changes, as of a slip or of somebody who means harm."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        text = text[:start] + draw(st.one_of(st.sampled_from(PIECES), st.text(max_size=5))) + text[end:]
    return text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_damaged_files(text: str) -> None:
    conversion = convert([File("damaged.yaml", text)])
    assert all(remark.finding.sentence for remark in conversion.remarks)
    assert convert(conversion.files).files == conversion.files


@st.composite
def claim(draw: st.DrawFn) -> Mapping[str, Any]:
    """A claim of v1beta1, as good as it may be."""
    fields = {
        "deviceClassName": st.sampled_from(["gpu.nvidia.com", "mig.nvidia.com"]),
        "count": st.integers(1, 9),
        "adminAccess": st.booleans(),
        "allocationMode": st.sampled_from(["ExactCount", "All"]),
    }
    some = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
    flat = {name: draw(fields[name]) for name in some}
    names = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=4))
    requests = [{"name": name, **flat} for name in names]
    return {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": requests}},
    }


@given(claim(), st.booleans())
def test_no_field_of_a_claim_is_lost(claim: Mapping[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(claim, default_flow_style=flow)
    (file,) = convert([File("claim.yaml", text)]).files
    found = yaml.safe_load(file.text)
    assert found["apiVersion"] == "resource.k8s.io/v1"
    again = [
        {"name": request["name"], **request.get("exactly", {})} for request in found["spec"]["devices"]["requests"]
    ]
    assert again == claim["spec"]["devices"]["requests"]


def laughs(levels: int) -> str:
    lines = ["# resource.k8s.io", "a0: &a0 [x, x]"]
    lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(laughs(40), id="billions of laughs"),
        pytest.param("# resource.k8s.io\na: " + "[" * 100_000, id="deep lists"),
        pytest.param(
            "# resource.k8s.io\n" + "".join(f"{' ' * level}a:\n" for level in range(2_000)), id="deep mappings"
        ),
        pytest.param("# resource.k8s.io\na: " + "x" * 2_000_000, id="long"),
        pytest.param("resource.k8s.io: " + "9" * 10_000, id="a large number"),
        pytest.param("# resource.k8s.io\n" + "--- \n" * 5_000, id="many documents"),
        pytest.param("resource.k8s.io: !!python/object/apply:os.system [echo]", id="a tag"),
    ],
)
def test_attacks_end_soon(text: str) -> None:
    began = time.monotonic()
    conversion = convert([File("attack.yaml", text)])
    assert time.monotonic() - began < SECONDS
    assert conversion.files[0].text == text
    assert all(remark.entry is NOT_CONVERTED for remark in conversion.remarks)


@given(st.text(max_size=200))
def test_what_is_said_is_short_and_printable(written: str) -> None:
    """Whatever is in the file: people read it on their terminals."""
    claim = {"apiVersion": "resource.k8s.io/v1beta1", "kind": written, written: {written: 1}, "spec": {written: []}}
    config = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": written, "replicas": written}]}}}
    for value in (claim, config):
        for remark in convert([File("odd.yaml", yaml.safe_dump(value, allow_unicode=True))]).remarks:
            assert remark.finding.sentence.isprintable()
            assert len(remark.finding.sentence) < 400
