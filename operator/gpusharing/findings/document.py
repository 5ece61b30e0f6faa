"""docs/findings.md, as it is generated from the table."""

from collections.abc import Iterator
from string import Formatter
from typing import Final

from gpusharing.api import names
from gpusharing.findings.finding import Entry
from gpusharing.findings.table import AREAS

_HEAD: Final = f"""\
<!-- Generated from operator/gpusharing/findings by `make generate`; do not edit. -->
# Findings

What the commands of `gpusharing` report, by code. A code never changes its meaning. The words in angle brackets are
filled in. To suppress a finding, use `--ignore CODE`. To suppress it for one object, list codes in the annotation
`{names.IGNORED_FINDINGS}`:

```sh
kubectl annotate sharingpolicy thirds {names.IGNORED_FINDINGS}=GSH0101,GSH0102
```

Severities: an *Error* does not work, and will not by itself; a *Warning* does not work now, or not as expected; an
*Info* is a fact that explains something.
"""


def page() -> str:
    return "\n".join([_HEAD, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for area in AREAS:
        yield f"## {area.title}\n"
        for entry in sorted(area.entries, key=lambda one: one.code):
            yield _section(entry)


def _section(entry: Entry) -> str:
    lines = [f"### {entry.code}", "", f"*{entry.title}* ({entry.severity.value})", "", f"> {_shown(entry.sentence)}"]
    if entry.remedy:
        depends = entry.remedy == "{remedy}"
        lines += ["", "Remedy: it depends on the cause, and the command prints it." if depends else _remedy(entry)]
    return "\n".join([*lines, ""])


def _remedy(entry: Entry) -> str:
    return f"Remedy: {_shown(entry.remedy)}"


def _shown(template: str) -> str:
    return "".join(
        text + (f"&lt;{name.replace('_', ' ').strip()}&gt;" if name else "")
        for text, name, _, _ in Formatter().parse(template)
    )
