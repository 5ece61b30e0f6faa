"""How panels of the dashboard look."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import bargauge, common, dashboard, gauge, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_BUSY: Final = 0.75
_FULL: Final = 0.9

Panel: TypeAlias = stat.Panel | gauge.Panel | bargauge.Panel | table.Panel | timeseries.Panel
Query: TypeAlias = prometheus.Dataquery


def now(expression: str, legend: str = "") -> Query:
    return prometheus.Dataquery().expr(expression).legend_format(legend).instant()


def over_time(expression: str, legend: str) -> Query:
    return prometheus.Dataquery().expr(expression).legend_format(legend).range()


def number(title: str, expression: str, about: str, *, unit: str = "short") -> Panel:
    panel = stat.Panel().title(title).description(about).with_target(now(expression)).unit(unit)
    return _placed(panel.thresholds(_neutral()), 4, 4)


def faults(title: str, expression: str, about: str) -> Panel:
    """Their number; none is best."""
    panel = stat.Panel().title(title).description(about).with_target(now(expression)).unit("short")
    return _placed(panel.thresholds(_steps(Threshold(color="green"), Threshold(color="red", value=1))), 4, 4)


def part(title: str, expression: str, about: str) -> Panel:
    panel = gauge.Panel().title(title).description(about).with_target(now(expression))
    return _placed(panel.unit("percentunit").min(0).max(1).thresholds(_load()), 4, 4)


def bars(title: str, queries: Iterable[Query], about: str, *, unit: str = "percentunit", width: int = 12) -> Panel:
    panel = bargauge.Panel().title(title).description(about).targets(list(queries))
    panel = panel.orientation(VizOrientation.HORIZONTAL).display_mode(BarGaugeDisplayMode.BASIC).min(0)
    if unit == "percentunit":
        panel = panel.unit(unit).max(1).thresholds(_load())
    else:
        panel = panel.unit(unit).thresholds(_neutral())
    return _placed(panel, width, 8)


def lines(
    title: str,
    queries: Iterable[Query],
    about: str,
    *,
    unit: str = "short",
    stacked: bool = False,
    width: int = 12,
) -> Panel:
    panel = timeseries.Panel().title(title).description(about).targets(list(queries)).unit(unit).min(0)
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = panel.legend(legend.show_legend(True)).fill_opacity(10)
    if stacked:
        panel = panel.fill_opacity(40).stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    return _placed(panel, width, 8)


def rows(
    title: str,
    expression: str,
    columns: Sequence[str],
    value: str,
    about: str,
    *,
    unit: str = "short",
    width: int = 12,
) -> Panel:
    """A table with a row for each series: labels as columns, and last its value."""
    query = now(expression).format(PromQueryFormat.TABLE)
    panel = table.Panel().title(title).description(about).with_target(query)
    for transformation in _columns((*columns, "Value"), renamed={"Value": value}):
        panel = panel.with_transformation(transformation)
    # Of all columns only the value is a number.
    return _placed(panel.unit(unit), width, 8)


def _placed(panel: Panel, width: int, height: int) -> Panel:
    return panel.datasource(DATA_SOURCE).span(width).height(height)


def _columns(names: Sequence[str], *, renamed: Mapping[str, str]) -> tuple[DataTransformerConfig, ...]:
    """These in this order, and no others."""
    order = {name: index for index, name in enumerate(names)}
    return (
        DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(names)}}),
        DataTransformerConfig(id_val="organize", options={"indexByName": order, "renameByName": dict(renamed)}),
    )


def _load() -> dashboard.ThresholdsConfig:
    return _steps(Threshold(color="green"), Threshold(color="orange", value=_BUSY), Threshold(color="red", value=_FULL))


def _neutral() -> dashboard.ThresholdsConfig:
    return _steps(Threshold(color="blue"))


def _steps(*steps: Threshold) -> dashboard.ThresholdsConfig:
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(list(steps))
