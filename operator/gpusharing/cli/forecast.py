"""gpusharing forecast: the ResourceSlices of a node that does not exist yet."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml
from pydantic import ValidationError

from gpusharing.api import names
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.files import named, text_of
from gpusharing.cli.output import as_json
from gpusharing.core.policies.policy import ExaminedPolicies, examine
from gpusharing.forecasting.boards import boards, memory_wall
from gpusharing.forecasting.forecast import Forecast, Node, forecast
from gpusharing.sim.drivers import DEFAULT, find_driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.models import MODELS, parse_gpus
from gpusharing.validating.reading import UnreadableError, documents

_KUBERNETES: Final = 37
_LABEL: Final = re.compile(r"([^=,\s]+)=([^=,\s]*)")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "forecast",
        summary="show what a node that does not exist yet would publish",
        examples=(
            ("Eight H100 under the policies of a folder", "gpusharing forecast --gpus H100-80GB:8 -f policies/"),
            (
                "A node of a pool, for a template of an autoscaler",
                "gpusharing forecast --gpus L4:4 --labels pool=inference -f policies/ -o json",
            ),
        ),
    )
    parser.add_argument("--gpus", required=True, metavar="MODEL[:COUNT],...", help=f"models: {', '.join(MODELS)}")
    parser.add_argument(
        "--labels", type=_labels, default={}, metavar="KEY=VALUE,...", help="labels of the Node, which policies select"
    )
    parser.add_argument("--node", default="forecast", metavar="NAME", help="name of the node (default: %(default)s)")
    parser.add_argument(
        "--driver", default=DEFAULT, metavar="VERSION", help="version of NVIDIA's driver (default: %(default)s)"
    )
    parser.add_argument(
        "--full-menus",
        type=int,
        default=1,
        metavar="N",
        help="idle GPUs that publish every offered mode, as the agent's flag of this name (default: %(default)s)",
    )
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="file or folder with SharingPolicies, or - for standard input; may be repeated",
    )
    options.add_output(parser, (options.YAML, options.JSON))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    policies = ExaminedPolicies([examine(policy, minor=_KUBERNETES) for policy in _policies(arguments.files)])
    for examined in policies.in_order:
        if examined.objection:
            raise CommandError(f"policy {examined.name}: {examined.objection.message}")
    try:
        driver = find_driver(arguments.driver)
        found = boards(parse_gpus(arguments.gpus), driver, node=arguments.node)
    except SimError as error:
        raise CommandError(str(error)) from error
    node = Node(arguments.node, arguments.labels, found, memory_wall(driver))
    result = forecast(node, policies, full_menus=arguments.full_menus)
    if arguments.output == options.JSON:
        sys.stdout.write(as_json({"apiVersion": "v1", "kind": "List", "items": list(result.slices)}) + "\n")
    else:
        sys.stdout.write(yaml.safe_dump_all(result.slices, sort_keys=False, width=120))
    for line in _remarks(result):
        sys.stderr.write(f"{line}\n")
    return exits.OK


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        match = _LABEL.fullmatch(part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{part} is not a label such as pool=inference")
        found[match[1]] = match[2]
    return found


def _policies(given: Sequence[str]) -> Iterator[SharingPolicy]:
    seen: dict[str, str] = {}
    for name in named(given):
        for document in _documents(name):
            if not isinstance(document, dict) or document.get("kind") != "SharingPolicy":
                continue
            if document.get("apiVersion") != names.API_VERSION:
                raise CommandError(f"{name}: a SharingPolicy must have apiVersion {names.API_VERSION}")
            policy = _policy(name, document)
            if other := seen.get(policy.metadata.name):
                raise CommandError(f"policy {policy.metadata.name} is in {other} and in {name}: remove one")
            seen[policy.metadata.name] = name
            yield policy


def _policy(name: str, document: dict[str, Any]) -> SharingPolicy:
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        document = document | {"metadata": metadata | {"generation": 1}}
    try:
        return SharingPolicy.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(f"{name}: SharingPolicy: {place}: {first['msg']}: see `gpusharing validate`") from error


def _documents(name: str) -> list[Any]:
    try:
        return [document.value for document in documents(text_of(name))]
    except UnreadableError as error:
        raise CommandError(f"{name}:{error.mark.line}:{error.mark.column}: cannot be read: {error}") from error


def _remarks(result: Forecast) -> Iterator[str]:
    """What policies ask for and these GPUs cannot do."""
    said: set[str] = set()
    for slot, gpu in enumerate(result.gpus):
        for refusal in gpu.refused:
            policy = gpu.policy.name if gpu.policy else ""
            line = f"policy {policy}: {refusal.sharing} is not offered: {refusal.message}"
            if line not in said:
                said.add(line)
                yield f"gpu-{slot}: {line}"
