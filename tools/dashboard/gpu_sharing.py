"""The Grafana dashboard, as JSON."""

import itertools
import json
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh, VariableSort

from dashboard import contents
from dashboard.panels import DATA_SOURCE

UID: Final = "gpusharing"


def text() -> str:
    """As JSON."""
    made = (
        dashboard.Dashboard("GPU sharing")
        .uid(UID)
        .description(
            "Which claim is on which GPU, what is promised, used and waited for. docs/metrics.md explains the metrics."
        )
        .tags(["gpu", "kubernetes"])
        .time("now-6h", "now")
        .refresh("1m")
        .variables(
            [
                dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"),
                _variable("cluster", "gpusharing_leading"),
                _variable("node", f"gpusharing_gpu_info{{{contents.CLUSTER}}}"),
                _variable("policy", f"gpusharing_policy_gpus{{{contents.CLUSTER}}}"),
                _variable("namespace", f"gpusharing_claim_device_info{{{contents.CLUSTER}}}"),
            ]
        )
    )
    ids = itertools.count(1)
    for row in contents.ALL:
        made = made.with_row(dashboard.Row(row.title).id(next(ids)))
        for panel in row.panels:
            made = made.with_panel(panel.id(next(ids)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=1)


def _variable(label: str, series: str) -> dashboard.QueryVariable:
    """All values, until somebody chooses some; also where the label is missing, as `cluster` is in most places."""
    return (
        dashboard.QueryVariable(label)
        .datasource(DATA_SOURCE)
        .query(f"label_values({series}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )
