"""Cases as people would type them: a file of steps, and what the server answered to each.

# Why this step is here.
$ kubectl create --filename - <<END
> {...}
> END
configmap/a created
# Or by HTTP, with a body in YAML; what was answered has a name, and later steps may speak of {made.metadata.uid}.
made = POST /api/v1/namespaces/{namespace}/configmaps
> Accept: application/json
> {metadata: {name: a}}
201
metadata:
  name: a
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "WATCH", "UNTIL", "OPTIONS")
_HTTP: Final = re.compile(rf"^(?:(?P<name>[a-z]+) = )?(?P<request>(?:{'|'.join(VERBS)}) .*)$")


@dataclass(frozen=True)
class Step:
    comment: tuple[str, ...]
    asked: str
    """A command, or a request with its path."""
    more: tuple[str, ...]
    """Further lines of the command; headers and body of the request."""
    answer: str
    name: str = ""
    """Of the answer, for later steps."""
    is_command: bool = False

    def text(self, answer: str) -> str:
        """The step as it stands in a file, with this answer."""
        prompt = "$ " if self.is_command else f"{self.name} = " if self.name else ""
        lines = [*self.comment, f"{prompt}{self.asked}", *(f"> {line}".rstrip() for line in self.more)]
        return "\n".join(lines) + f"\n{answer}"


def parse(text: str) -> list[Step]:
    """What stands before the first step is an error: nobody would see that it is not run."""
    return list(_steps(text.splitlines()))


def needs_kubectl(steps: list[Step]) -> bool:
    return any(step.is_command for step in steps)


def _steps(lines: list[str]) -> Iterator[Step]:
    position = 0

    def taken(prefix: str) -> tuple[str, ...]:
        nonlocal position
        start = position
        while position < len(lines) and lines[position].startswith(prefix):
            position += 1
        return tuple(lines[start:position])

    while position < len(lines):
        comment = taken("# ")
        asked = lines[position] if position < len(lines) else ""
        http = _HTTP.match(asked)
        if not http and not asked.startswith("$ "):
            raise ValueError(f"line {position + 1} is no step: {asked!r}")
        position += 1
        more = tuple(line[2:] for line in taken(">"))
        start = position
        while position < len(lines) and not _begins_a_step(lines[position]):
            position += 1
        answer = "".join(f"{line}\n" for line in lines[start:position])
        if http:
            yield Step(comment, http["request"], more, answer, name=http["name"] or "")
        else:
            yield Step(comment, asked[2:], more, answer, is_command=True)


def _begins_a_step(line: str) -> bool:
    return line.startswith(("# ", "$ ")) or _HTTP.match(line) is not None
