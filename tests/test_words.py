"""Texts for users have one word for one thing: this is the table of words not to use, with better ones."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "operator/gpusharing"
ROOMS: Final = (
    "agent",
    "api",
    "bundling",
    "cel",
    "cli",
    "controller",
    "converting",
    "core",
    "explaining",
    "exporting",
    "findings",
    "forecasting",
    "kube",
    "nvidia",
    "occupancy",
    "planning",
    "sharing_tests",
    "snapshots",
    "ui",
    "validating",
)

# Pattern, what to write instead, and a sentence in which it must be found.
FORBIDDEN: Final = (
    (r"in the way", "blocks, blocked by", "evicts the claims in the way"),
    (r"ways?", "mode", "a GPU is offered in two ways"),
    (r"what (is|was) (to|offered|missing|there|asked)", "name it: the devices, the offers", "what is to go is closing"),
    (r"(is|are) to go", "closing, withdrawn", "devices that are to go"),
    (r"who(ever)? (is|holds?|asks?|wants?|had|has|only|may|comes?)", "claim, user, policy", "who asks gets a share"),
    (r"whoever|whichever", "name the claim, the user or the policy", "whoever holds the GPU"),
    (r"nobody new", "no new claim", "nobody new gets it"),
    (r"its people", "the claim and its pods", "events for its people"),
    (r"(un)?told|tell(s|ing)?", "written, reported, recorded, says", "the policy tells why"),
    (r"wish(es|ed)?", "request, intent", "the wish of a policy"),
    (r"(the|last) word", "spec, verdict", "the operator's last word, or the word of the agent"),
    (r"rests|resting", "is suspended (paused or in mode Plan)", "a policy that rests"),
    (r"kept", "retained, unchanged, reserved", "the GPU is kept as it was"),
    (r"held(?! back)", "allocated, limited", "a GPU held by a claim"),
    (r"(be|was|were|is|are) had", "be allocated", "the GPU can be had"),
    (r"(?<!full )menu", "full menu", "a GPU of the menu"),
    (r"the wall", "the allocation guard; a memory wall is a memory limit", "the wall refuses"),
    (r"share of (a|the|each) node", "contribution", "the share of a node in a status"),
    (r"tally", "totals", "the tally of a policy"),
    (r"(gives?|gave|given|giving) (it |them )?back", "releases, restores", "a claim gives back its device"),
    (r"puts? (it |them )?(right|back)", "repairs, restores", "puts them back"),
    (r"mend(s|ed)?", "repair, correct", "mend the node"),
    (r"anew", "again", "started anew"),
    # Not the name of a flag.
    (r"(?<!-)beside", "with, next to, and", "a claim beside another"),
    (r"(un)?cut", "repartitioned; MIG instances are created or destroyed", "a GPU that is cut"),
    (r"as long as (they|it) likes?", "until it is released", "they stay as long as they like"),
    (r"overtaken", "write conflict", "overtaken"),
    (r"stays? as (it|they) (is|are|was|were)", "stays unchanged", "the GPU stays as it was"),
    (r"(is|are) there already", "already exists", "a class of this name is there already"),
    (r"knows? nothing", "does not know", "admission knows nothing of it"),
)
_PATTERNS: Final = tuple(
    (re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead, _ in FORBIDDEN
)

# Texts that this test does not read, with the reason.
NOT_READ: Final = {
    "docs/hardware.md": "describes the agent's hardware layer, which is reworded with the agent",
    "docs/reference/commands.md": "is generated from texts that are read here, and from those of the same test tool",
    "docs/simulation.md": "describes a test tool for developers; its examples are a test of their own",
}
_CALLED_WITH_EVENT: Final = {"debug", "info", "warning", "error", "exception"}
_FOR_PEOPLE: Final = {"description", "kubernetes.io/description", "message", "messageExpression", "summary"}


class Text(NamedTuple):
    where: str
    text: str


def test_texts_for_users() -> None:
    found = [f"{text.where}: {problem}" for text in texts() for problem in problems(text.text)]
    assert found == []


@pytest.mark.parametrize(("pattern", "instead", "example"), FORBIDDEN)
def test_each_pattern_finds_its_example_and_not_its_replacement(pattern: str, instead: str, example: str) -> None:
    word = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    assert word.search(example)
    assert not word.search(instead)
    assert list(problems(instead)) == []


@pytest.mark.parametrize(
    "known",
    [
        pytest.param("mutually exclusive: remove one", id="a refusal of the API server"),
        pytest.param("Offers GPUs by time-slicing", id="a description of a field"),
        pytest.param("Nodes on which the policy is in force", id="a description of a column"),
        pytest.param("No operator replica leads", id="an alert"),
        pytest.param("is not one of its tenants", id="an f-string of a decision"),
        pytest.param("write refused", id="a log event"),
        pytest.param("listening", id="a log event of one word"),
        pytest.param("Objects in the cluster state", id="the help of a metric"),
        pytest.param("GPU sharing for Kubernetes", id="the help of a command"),
        pytest.param("is not supported: remove it", id="an error"),
        pytest.param("external change reverted", id="a log event of the agent"),
        pytest.param("publish every offered mode", id="the help of a flag of the agent"),
        pytest.param("use another GPU, or omit the setting", id="a remedy of an error of the GPU driver"),
        pytest.param("If a selector fails on a GPU, the GPU stays with its current policy", id="a page"),
    ],
)
def test_it_reads_every_kind_of_text(known: str) -> None:
    assert any(known in text.text for text in texts())


def test_it_leaves_code_and_docstrings_alone() -> None:
    source = 'def f():\n    """Whoever calls."""\n    return "told " + f"a {x} way"\n'
    assert [text.text for text in strings("f.py", source)] == ["told ", "a {} way"]
    assert list(paragraphs("Run `kubectl told`.\n\n```\nanew\n```\n\nEnd.")) == [
        "Run ` `.",
        "End.",
    ]


@pytest.mark.parametrize("path", NOT_READ)
def test_exceptions_are_still_needed(path: str) -> None:
    """If this fails, the text is in order: remove it from NOT_READ."""
    excepted = ROOT / path
    pages = [excepted] if excepted.is_file() else sorted(excepted.rglob("*.py"))
    read = [page.read_text() for page in pages]
    found = [text for page in read for text in (paragraphs(page) if path.endswith(".md") else _sentences(page))]
    assert [text for text in found if list(problems(text))]


def problems(text: str) -> Iterator[str]:
    for pattern, instead in _PATTERNS:
        for match in pattern.finditer(text):
            around = text[max(0, match.start() - 40) : match.end() + 40]
            yield f"{match[0]!r} in {around!r}, use instead: {instead}"


@cache
def texts() -> tuple[Text, ...]:
    return (*_of_code(), *_of_manifests(), *_of_documents())


def _of_code() -> Iterator[Text]:
    for path in sorted(chain(*((PACKAGE / room).rglob("*.py") for room in ROOMS))):
        if is_read(path):
            yield from strings(str(path.relative_to(ROOT)), path.read_text())
    for path in sorted((PACKAGE / "ui/templates").glob("*.html")):
        yield Text(str(path.relative_to(ROOT)), re.sub(r"{[{%#].*?[#%}]}|<[^>]*>", " ", path.read_text()))


def strings(where: str, source: str) -> Iterator[Text]:
    """Strings with a space are sentences; of single words, only log events are read."""
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    events = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node and isinstance(part, ast.Constant)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLED_WITH_EVENT:
            events |= {id(argument) for argument in node.args[:1]}
    for node in ast.walk(tree):
        text = _text(node)
        if text and id(node) not in skipped and (" " in text or id(node) in events):
            yield Text(f"{where}:{getattr(node, 'lineno', 0)}", text)


def _sentences(source: str) -> Iterator[str]:
    return (text.text for text in strings("", source))


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
        case _:
            return None


def _of_manifests() -> Iterator[Text]:
    for path in sorted(chain((ROOT / "crds").glob("*.yaml"), (ROOT / "manifests").rglob("*.yaml"))):
        for document in yaml.safe_load_all(path.read_text()):
            for text in _values(document):
                yield Text(str(path.relative_to(ROOT)), text)


def _values(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                if key in _FOR_PEOPLE and isinstance(item, str):
                    yield item
                else:
                    yield from _values(item)
        case list():
            for item in value:
                yield from _values(item)


def _of_documents() -> Iterator[Text]:
    pages = [
        *ROOT.glob("*.md"),
        *(path for name in ("docs", "charts", "contrib") for path in (ROOT / name).rglob("*.md")),
    ]
    for path in sorted(pages):
        if is_read(path):
            for text in paragraphs(path.read_text()):
                yield Text(str(path.relative_to(ROOT)), text)
    for path in sorted((ROOT / "docs/examples").glob("*.yaml")):
        comments = [line.strip(" #") for line in path.read_text().splitlines() if line.strip().startswith("#")]
        yield Text(str(path.relative_to(ROOT)), " ".join(comments))


def paragraphs(page: str) -> Iterator[str]:
    """Without code, figures that a command has written, and quotes of the agent."""
    prose = re.sub(r"^( *)```.*?^\1```$|<!-- begin.*?<!-- end[^>]*-->", "", page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in prose.split("\n\n"):
        text = re.sub(r"`[^`]+`", "` `", " ".join(paragraph.splitlines())).strip()
        if text:
            yield text


def is_read(path: Path) -> bool:
    return not any(path.is_relative_to(ROOT / excluded) for excluded in NOT_READ)
