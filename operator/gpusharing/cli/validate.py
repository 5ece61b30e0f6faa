"""gpusharing validate: manifests as the API server, NVIDIA's decoder and our guards would look at them, offline."""

import argparse
from typing import Any, Final

from gpusharing.cli import exits, options

_FORMATS: Final = (options.TABLE, options.JSON, "github", "junit", "sarif")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "validate",
        summary="check manifests without a cluster",
        examples=(
            ("A folder and a file", "gpusharing validate policies/ claim.yaml"),
            ("What Helm renders", "helm template . | gpusharing validate -"),
            ("In GitHub Actions, at the lines of the pull request", "gpusharing validate -o github policies/"),
        ),
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for standard input")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace of objects that name none")
    parser.add_argument(
        "--kubernetes",
        type=_minor,
        default=None,
        metavar="1.N",
        help="version of Kubernetes (default: the newest known)",
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail, too")
    options.add_output(parser, _FORMATS)
    options.add_ignore(parser)
    parser.set_defaults(run=exits.reporting(_run))


def _minor(text: str) -> int:
    major, _, minor = text.partition(".")
    if major != "1" or not minor.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a version such as 1.37")
    return int(minor)


def _run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli import validate_run  # noqa: PLC0415

    return validate_run.run(arguments)
