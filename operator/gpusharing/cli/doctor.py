"""`gpusharing doctor`: is a cluster ready for gpu-sharing, and is an installation well?"""

import argparse
import re
from typing import Any, Final

from gpusharing.cli import exits, options

_FORMATS: Final = (options.TABLE, "short", options.JSON, "junit")
_DURATION: Final = re.compile(r"(?:(\d{1,3})h)?(?:(\d{1,4})m)?(?:(\d{1,5})s?)?")
_WAIT: Final = "5m"
_EXAMPLES: Final = (
    ("Before the installation", "gpusharing doctor --pre"),
    ("After it; in CI: until all is well, for five minutes at most", "gpusharing doctor --wait 5m"),
    ("Does a pod get a GPU, in each mode that is offered?", "gpusharing doctor --probe -n default"),
    ("Only what is not well, a line each", "gpusharing doctor -o short"),
)


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "doctor",
        summary="check a cluster before the installation, and an installation",
        examples=_EXAMPLES,
    )
    parser.add_argument("--pre", action="store_true", help="check whether the cluster is ready for an installation")
    parser.add_argument(
        "--wait",
        nargs="?",
        type=_duration,
        const=_duration(_WAIT),
        metavar="DURATION",
        help=f"check again until nothing is wrong, such as 90s or 2m (default: {_WAIT})",
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail, too")
    group = parser.add_argument_group("probe")
    group.add_argument("--probe", action="store_true", help="start a short pod for each mode that is offered")
    group.add_argument(
        "--image", metavar="IMAGE", help="image of the pods; it needs the program `true` (default: the agents' image)"
    )
    group.add_argument(
        "--timeout",
        type=_duration,
        default=_duration("1m"),
        metavar="DURATION",
        help="time that each pod may take (default: 1m)",
    )
    options.add_namespace(group)  # type: ignore[arg-type]
    options.add_cluster(parser)
    options.add_output(parser, _FORMATS)
    options.add_ignore(parser)
    parser.set_defaults(run=exits.reporting(_run))


def _duration(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 2m or 1h")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli import doctor_run  # noqa: PLC0415

    return doctor_run.run(arguments)
