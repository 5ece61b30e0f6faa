"""What people see at 80 and at 200 columns: golden files, to be looked at when they change.

`GPUSHARING_WRITE_SCREENS=1 pytest tests/demo/test_screen.py` writes them.
"""

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from gpusharing.demo.narrator import Line, Step
from gpusharing.demo.recording import Recording
from gpusharing.demo.screen import lines
from gpusharing.occupancy.fleet import Fleet
from top.scenes import SCENES

SCREENS: Final = Path(__file__).parent / "screens"
HEIGHTS: Final = {80: 34, 100: 38, 200: 30}
STEPS: Final = (
    Step("Three GPU nodes join the cluster.", [Line("Their agents found 6 GPUs.")], is_done=True),
    Step(
        "The notebooks end, and a policy offers each GPU in four modes.",
        [
            Line("offers:", is_quoted=True),
            Line("  timeSlicing: {maxClients: 4, interval: Short}", is_quoted=True),
            Line("It is in force after 0.9 s: 56 devices in place of 6, for up to 84 clients of all modes together."),
        ],
        is_done=True,
    ),
    Step(
        "A second policy reserves the H100s.",
        [
            Line(
                "SharingPolicy for-serving: namespace lab is not one of its tenants" + " and so on" * 20, is_quoted=True
            )
        ],
    ),
)
FLEETS: Final = {name: SCENES[name]() for name in ("measured", "sick", "empty")}


@pytest.mark.parametrize("columns", HEIGHTS)
def test_screens(columns: int) -> None:
    drawn = lines(STEPS, FLEETS["measured"], width=columns, height=HEIGHTS[columns], state="Ctrl-C ends everything.")
    text = "".join(f"{line.plain.rstrip()}\n" for line in drawn)
    golden = SCREENS / f"{columns}.txt"
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


@given(st.sampled_from([None, *FLEETS.values()]), st.integers(80, 220), st.integers(16, 60), st.integers(0, 3))
def test_it_is_as_large_as_the_terminal(fleet: Fleet | None, columns: int, height: int, steps: int) -> None:
    drawn = lines(STEPS[:steps], fleet, width=columns, height=height, state="x" * 300)
    assert len(drawn) == height
    assert max(cell_len(line.plain) for line in drawn) <= columns


@pytest.mark.parametrize("height", [16, 24, 40])
def test_the_last_sentence_is_always_there(height: int) -> None:
    drawn = lines(STEPS[:2], FLEETS["measured"], width=80, height=height)
    assert any("all modes together" in line.plain for line in drawn)


def test_a_recording_has_each_picture_for_its_time() -> None:
    recording = Recording(80, 3)
    for text, seconds in (("first", 1.0), ("second <&>", 2.0), ("second <&>", 3.0), ("third", 1.0)):
        recording.add([Text("always"), Text(text, style="bold red"), Text()], seconds)
    svg = recording.svg()
    root = ET.fromstring(svg)  # noqa: S314 (our own)
    pictures = [one for one in root if one.get("class") == "p"]
    assert len(pictures) == 3, "a picture that does not change is the same one"
    assert "5.00s" in svg, "and is shown for the longer time"
    assert svg.count("always") == 1, "what pictures have in common stands once"
    starts = [float(one) for one in re.findall(r"([\d.]+)%\{visibility:visible\}", svg)]
    assert starts[:3] == pytest.approx([0, 20, 80])
    assert "second &lt;&amp;&gt;" in svg
    assert not re.search(r"<script|https?://(?!www.w3.org/2000/svg)|onload", svg)
