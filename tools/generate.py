"""Writes what is generated and checked in: crds/ and the gRPC messages. `make check` fails on a difference."""

from pathlib import Path

import yaml
from grpc_tools import protoc

from gpusharing.api import crd

ROOT = Path(__file__).parent.parent


class _PlainDumper(yaml.SafeDumper):
    """Without anchors: people read these files."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def write_crds() -> None:
    for definition in crd.DEFINITIONS:
        text = yaml.dump(crd.to_crd(definition), Dumper=_PlainDumper, sort_keys=False, width=120)
        header = "# Generated from operator/gpusharing/api by `make generate`; do not edit.\n"
        (ROOT / "crds" / f"{definition.name}.yaml").write_text(header + text)


def write_messages() -> None:
    directory = ROOT / "operator/gpusharing/agent/dra/pb"
    sources = sorted(str(path) for path in directory.glob("*.proto"))
    arguments = [f"--proto_path={directory}", f"--python_out={directory}", f"--pyi_out={directory}", *sources]
    if protoc.main(["protoc", *arguments]) != 0:
        raise SystemExit("protoc failed")


def main() -> None:
    write_crds()
    write_messages()


if __name__ == "__main__":
    main()
