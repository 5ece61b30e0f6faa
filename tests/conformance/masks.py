"""What is another on each server and in each run, and means nothing."""

import re
from typing import Any, Final

import yaml

# As text, so that they hold for what kubectl prints as well. The order counts.
_MASKS: Final = (
    # What kubectl logs, as it comes.
    (re.compile(r"^[IWE]\d{4} \d\d:\d\d:.*\n", re.MULTILINE), ""),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"""["']?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z["']?"""), "TIME"),
    # As `describe` has it.
    (re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"""(resourceVersion"?: *|Resource Version: +)["']?\d+["']?"""), r"\1VERSION"),
    (re.compile(r"""(continue"?: *)["']?[A-Za-z0-9_=-]{8,}["']?"""), r"\1TOKEN"),
    (re.compile(r"(https?://)?127\.[0-9.]+:\d+"), "SERVER"),
    (re.compile(r"/\S*/(kubectl-edit|conformance)-\w+"), r"FILE"),
    # The end of a generated name has neither vowels nor digits that look like letters.
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-SUFFIX"),
    # Ages in tables, with the room that they take.
    (re.compile(r"(?<=  )(\d+[smh]){1,2}(?: ago)?( *)$", re.MULTILINE), "AGE"),
    (re.compile(r"(?<=  )(\d+[smh]){1,2}(?: \(x\d+ over \d+[smh]\))? +(?=\S)"), "AGE  "),
)


def masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip()) if text.strip() else ""


def as_yaml(value: Any) -> str:
    return yaml.safe_dump(_without_managers(value), width=120, allow_unicode=True, default_flow_style=False)


def _without_managers(value: Any) -> Any:
    """A step that is about them asks for them by their path."""
    if isinstance(value, list):
        return [_without_managers(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_managers(item) for key, item in value.items() if key != "managedFields"}
    return value
