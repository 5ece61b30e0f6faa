"""Which page a URL is."""

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from gpusharing.core.text import counted
from gpusharing.planning import reports
from gpusharing.ui import updates
from gpusharing.ui.charts import chart
from gpusharing.ui.exchange import EVENTS, Answer, Request
from gpusharing.ui.pages import TYPES, Pages, Viewer, static
from gpusharing.ui.picture import Details, Lookup, Picture, PlanError, Source, SourceError
from gpusharing.ui.rows import NAMED, gpu_row, node_rows
from gpusharing.ui.sections import finding_row, policy_rows, policy_state, summary, waiting_rows
from gpusharing.ui.viewing import Shown, View

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Of a Kubernetes object: nothing else is asked for."""
SEEN: Final = "What this process has seen."
"""Where the history comes from, unless it is a Prometheus."""


class UiSite:
    def __init__(
        self,
        source: Source,
        lookup: Lookup,
        pages: Pages,
        *,
        source_of_history: str = SEEN,
        viewer: Viewer | None = None,
    ) -> None:
        self._source = source
        self._lookup = lookup
        self._pages = pages
        self._source_of_history = source_of_history
        self._viewer = viewer

    def answer(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except SourceError as error:
            return self._fragment(request, "missing.html", HTTPStatus.BAD_GATEWAY, why=str(error))

    def _answer(self, request: Request) -> Answer:
        if request.form is not None:
            return self._plan(request, request.form) if request.path == ("plan",) else self._missing(request)
        match request.path:
            case ("",):
                return self._index(View.of_query(request.query))
            case ("events",):
                since = request.last_event or request.query.get("since", "")
                view = View.of_query(request.query)
                stream = updates.stream(self._source, view, self._pages, since, self._source_of_history)
                return Answer(body=stream, content_type=EVENTS)
            case ("static", name) if name in TYPES:
                return Answer(body=static(name), content_type=TYPES[name])
            case ("history",):
                return self._fragment(request, "history.html", chart=chart(self._source.samples), event="history")
            case (kind, *name) if all(_NAME.fullmatch(part) for part in name):
                return self._object(request, kind, name)
        return self._missing(request)

    def _index(self, view: View) -> Answer:
        picture = self._source.picture()
        shown = view.shown(picture.fleet)
        body = self._pages.page(
            "index.html",
            **values(picture, view, shown),
            chart=chart(self._source.samples),
            is_still=False,
            stream="&".join(part for part in (view.query(page=shown.page), f"since={picture.number}") if part),
            source_of_history=self._source_of_history,
            viewer=self._viewer,
        )
        return Answer(body=body)

    def _object(self, request: Request, kind: str, name: Sequence[str]) -> Answer:
        match kind, *name:
            case "gpu", node, gpu:
                return self._gpu(request, node, gpu)
            case "node", node:
                return self._details(request, "node.html", self._lookup.node(node), event=f"node-{node}")
            case "pod", namespace, pod:
                return self._details(request, "pod.html", self._lookup.pod(namespace, pod), event="waiting")
            case "policy", policy:
                return self._details(request, "policy.html", self._lookup.policy(policy), event="policies")
        return self._missing(request)

    def _gpu(self, request: Request, node: str, name: str) -> Answer:
        gpus = (gpu for one in self._source.picture().fleet.nodes if one.name == node for gpu in one.gpus)
        use = next((gpu for gpu in gpus if gpu.name == name), None)
        if use is None:
            return self._missing(request)
        row = gpu_row(use)
        return self._details(request, "gpu.html", self._lookup.gpu(node, name), event=row.id, gpu=row, use=use)

    def _details(self, request: Request, template: str, details: Details | None, *, event: str, **more: Any) -> Answer:
        if details is None:
            return self._missing(request)
        found = details.explanation
        values: Mapping[str, Any] = {
            "details": details,
            "findings": [finding_row(one) for one in found.findings],
            "state": policy_state(details.policy) if details.policy else None,
        }
        return self._fragment(request, template, event=event, **values, **more)

    def _plan(self, request: Request, form: Mapping[str, str]) -> Answer:
        text = form.get("policy", "")
        try:
            plan = self._source.plan(text.encode())
        except PlanError as error:
            return self._fragment(
                request, "plan.html", HTTPStatus.UNPROCESSABLE_ENTITY, error=str(error), text=text, plan=None
            )
        values: dict[str, Any] = {
            "summary": reports.summary(plan),
            "groups": [(counted(len(one.places), "GPU"), one) for one in reports.groups(plan)],
            "sections": [(title, texts) for title, texts in _sections(plan) if texts],
            "findings": [(reports.about(one), finding_row(one)) for one in plan.findings],
        }
        return self._fragment(request, "plan.html", plan=plan, text=text, error="", **values)

    def _missing(self, request: Request) -> Answer:
        return self._fragment(request, "missing.html", HTTPStatus.NOT_FOUND, why="")

    def _fragment(
        self, request: Request, template: str, status: HTTPStatus = HTTPStatus.OK, *, event: str = "", **values: Any
    ) -> Answer:
        """Alone, or as a part of the page."""
        page = template if request.wants_part else "alone.html"
        path = "/".join(request.path)
        same: Mapping[str, Any] = {"is_part": request.wants_part, "path": path, "event": event, "viewer": self._viewer}
        body = self._pages.page(page, fragment=template, **same, **values)
        return Answer(body=body, status=status)


def values(picture: Picture, view: View, shown: Shown, *, named: int = NAMED) -> dict[str, Any]:
    """What the page and the still picture have in common."""
    return {
        "picture": picture,
        "view": view,
        "shown": shown,
        "nodes": [node_rows(node, gpus, named=named) for node, gpus in shown.nodes],
        "summary": summary(picture.fleet),
        "waiting": waiting_rows(picture.fleet),
        "policies": policy_rows(picture.policies),
    }


_SECTIONS: Final[Mapping[str, Callable[[Any], list[str]]]] = {
    "Policies": lambda plan: [reports.object_in_words(one) for one in plan.policies],
    "Other objects": lambda plan: [reports.object_in_words(one) for one in plan.objects],
    "Order": lambda plan: reports.order_in_words(plan.steps),
    "Pods that would start": lambda plan: [reports.workload_in_words(one) for one in plan.starting],
}


def _sections(plan: Any) -> list[tuple[str, list[str]]]:
    return [(title, in_words(plan)) for title, in_words in _SECTIONS.items()]
