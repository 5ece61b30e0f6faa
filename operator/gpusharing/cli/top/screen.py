"""The fleet as people see it."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from rich.console import Console
from rich.text import Text

from gpusharing.api.names import Sharing
from gpusharing.cli.output import Screen
from gpusharing.cli.top.amounts import gibibytes, gpus, memory, percent
from gpusharing.cli.top.bars import bar, level
from gpusharing.cli.top.columns import Cell, Column, Row, clipped, joined, lines
from gpusharing.cli.top.who import who
from gpusharing.core.text import counted, listed
from gpusharing.findings.printable import printable
from gpusharing.occupancy.fleet import Fleet, GpuUse, NodeUse, Use, Waiting
from gpusharing.occupancy.groups import GPU, NAMESPACE, POLICY, uses

_STYLES: Final = {
    Sharing.EXCLUSIVE: "magenta",
    Sharing.TIME_SLICING: "cyan",
    Sharing.MPS: "green",
    Sharing.MIG: "blue",
}
_NOTHING: Final = Text()
_BETWEEN: Final = " · "
_WIDE: Final = 100
"""Columns from which there is room for the policy."""
_WIDEST: Final = 24
_MOST_FINDINGS: Final = 5
_OF_USES: Final = 64
"""Columns that sums take beside their name."""
_NOBODY: Final = {NAMESPACE: "(of other namespaces)", POLICY: "(no policy)"}


def console(screen: Screen) -> Console:
    """Says nothing of its own: names are no markup, and numbers have no colours."""
    return Console(
        width=screen.width,
        color_system="standard" if screen.has_colours else None,
        # Also without colours a terminal can be drawn on again.
        force_terminal=screen.has_colours or None,
        markup=False,
        highlight=False,
        emoji=False,
    )


def drawn(fleet: Fleet, group: str, screen: Screen, *, height: int | None = None, state: Text = _NOTHING) -> list[Text]:
    """`height`: of the terminal, if it is not to scroll. `state`: of the reading, if it goes on."""
    before = [*_summary(fleet, screen.width), state]
    table = list(_gpus(fleet, screen.width) if group == GPU else _uses(fleet, group, screen.width))
    after = [*_waiting(fleet.waiting, screen), *_notes(fleet, screen)]
    after = after if table else after[1:]
    if height is not None:
        room = max(height - len(before) - len(after), height // 2)
        if len(table) > room:
            hidden = len(table) - room + 1
            rest = f"… {counted(hidden, 'line')} more: choose with --node, --policy, -n or --idle, or group with -g"
            table = [*table[: room - 1], Text(clipped(rest, screen.width), style="dim")]
    return [*before, *table, *after][:height]


def _summary(fleet: Fleet, width: int) -> Iterator[Text]:
    """In one line, or in two."""
    total = fleet.total
    is_known = all(gpu.ratio is not None for gpu in fleet.gpus)
    promised = f"{gpus(total.ratio) if is_known else '?'} promised"
    parts = [
        counted(len(fleet.nodes), "node"),
        f"{counted(total.gpus, 'GPU')}, {total.gpus_in_use} in use, {promised}",
        *([f"memory {memory(total.memory)}, {memory(total.memory_promised)} promised"] if total.memory else []),
    ]
    if total.memory_used is not None:
        parts[-1] += f", {memory(total.memory_used)} used"
    if total.utilization is not None:
        parts.append(f"{percent(total.utilization)} busy")
    line = _BETWEEN.join(parts)
    lines = [line] if len(line) <= width else [_BETWEEN.join(parts[:2]), _BETWEEN.join(parts[2:])]
    yield from (Text(clipped(one, width), style="bold", no_wrap=True) for one in lines)


# ---------------------------------------------------------------------------------------------------------------- GPUs


def _gpus(fleet: Fleet, width: int) -> Iterator[Text]:
    found = fleet.gpus
    if not found:
        return
    measured = any(gpu.memory_used is not None or gpu.utilization is not None for gpu in found)
    columns = [
        Column("GPU"),
        *([Column("POLICY")] if width >= _WIDE else []),
        Column("MODE", most=_WIDEST if width >= _WIDE else max(map(len, Sharing))),
        Column("PROMISED"),
        Column("MEMORY", is_number=True),
        *([Column("USED", is_number=True), Column("UTIL", is_number=True)] if measured else []),
    ]
    rows = [_gpu(gpu, has_policy=width >= _WIDE, measured=measured) for gpu in found]
    header, *body = lines(columns, "WHO", rows, width)
    yield header
    drawn_rows = iter(body)
    for node in fleet.nodes:
        yield _node(node, width)
        yield from (next(drawn_rows) for _ in node.gpus)


def _gpu(gpu: GpuUse, *, has_policy: bool, measured: bool) -> Row:
    style = _STYLES[gpu.modes[0]] if len(gpu.modes) == 1 else "yellow"
    total = "?" if gpu.shares_total is None else gpu.shares_total
    shares = "" if gpu.is_idle else f" {gpu.shares_taken}/{total}"
    promised = gibibytes(gpu.memory_promised) if gpu.memory_promised else "-"
    cells = [
        Cell(f"  {gpu.name}"),
        *([Cell(printable(gpu.policy or "-"))] if has_policy else []),
        Cell("+".join(gpu.modes) or "-", style if gpu.modes else "dim"),
        Cell(f"{bar(gpu)}{shares}", "dim" if gpu.is_idle else style),
        Cell(f"{promised}/{memory(gpu.memory)}" if gpu.memory else promised),
    ]
    if measured:
        cells += [Cell("-" if gpu.memory_used is None else memory(gpu.memory_used)), Cell(percent(gpu.utilization))]
    return Row(cells, lambda width: who(gpu, width))


def _node(node: NodeUse, width: int) -> Text:
    models: dict[str, int] = {}
    for gpu in node.gpus:
        models[gpu.model] = models.get(gpu.model, 0) + 1
    text = ", ".join(f"{count} x {printable(model)}" for model, count in models.items() if model)
    problem = f"  agent not ready: {node.problem}" if node.problem else ""
    name = clipped(node.name, max(width - len(problem), 20))
    room = width - len(name) - len(problem) - 2
    return joined([(name, "bold"), (f"  {clipped(text, room)}" if room > 10 else "", "dim"), (problem, "bold red")])


# --------------------------------------------------------------------------------------------------------------- sums


def _uses(fleet: Fleet, group: str, width: int) -> Iterator[Text]:
    """Bars show the part of their GPUs that is promised; those of namespaces, the part of all GPUs."""
    found = uses(fleet, group)
    if not found:
        return iter(())
    columns = [
        Column(group.upper(), most=max(width - _OF_USES, 16)),
        Column("GPUS", is_number=True),
        Column("IN USE", is_number=True),
        Column("CLAIMS", is_number=True),
        Column("PROMISED"),
        Column("MEMORY", is_number=True),
        Column("USED", is_number=True),
    ]
    rows = [_use(one, fleet.total.gpus if group == NAMESPACE else one.gpus, _NOBODY.get(group, "")) for one in found]
    return lines(columns, "UTIL", rows, width)


def _use(use: Use, of: int, nobody: str) -> Row:
    cells = [
        Cell(use.name) if use.name else Cell(nobody, "dim"),
        Cell(str(use.gpus)),
        Cell(str(use.gpus_in_use)),
        Cell(str(use.claims)),
        Cell(f"{level(use.ratio / of if of else 0)} {gpus(use.ratio)}", "cyan"),
        Cell(f"{gibibytes(use.memory_promised)}/{memory(use.memory)}"),
        Cell("-" if use.memory_used is None else memory(use.memory_used)),
    ]
    return Row(cells, lambda _: [Cell(percent(use.utilization))])


# ------------------------------------------------------------------------------------------------------- what is wrong


def _waiting(waiting: Sequence[Waiting], screen: Screen) -> Iterator[Text]:
    """What is the same for several is said once."""
    if not waiting:
        return
    yield Text()
    yield Text(f"{counted(len(waiting), 'pod')} {'waits' if len(waiting) == 1 else 'wait'}", style="bold")
    by_code: dict[str, list[Waiting]] = {}
    for one in waiting:
        by_code.setdefault(one.finding.code if one.finding else "", []).append(one)
    unexplained = by_code.pop("", [])
    for some in list(by_code.values())[:_MOST_FINDINGS]:
        if finding := some[0].finding:
            pods = listed([f"{one.namespace}/{one.pod}" for one in some])
            yield from _wrapped(Text.from_ansi(screen.finding(finding, place=pods)), screen)
    unexplained += chain.from_iterable(list(by_code.values())[_MOST_FINDINGS:])
    if unexplained:
        first = unexplained[0]
        command = f"gpusharing explain pod {first.pod} -n {first.namespace}"
        text = f"Why {counted(len(unexplained), 'more pod')} {'wait' if len(unexplained) > 1 else 'waits'}: {command}"
        yield from _wrapped(Text(printable(text), style="dim"), screen)


def _notes(fleet: Fleet, screen: Screen) -> Iterator[Text]:
    if fleet.notes:
        yield Text()
    for one in fleet.notes:
        yield from _wrapped(Text(printable(f"{one.code} {one.sentence} {one.remedy}"), style="dim"), screen)


def _wrapped(text: Text, screen: Screen) -> Iterator[Text]:
    for line in text.wrap(console(screen), screen.width):
        line.rstrip()
        yield line
