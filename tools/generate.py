"""Writes what is generated and checked in: crds/ and the gRPC messages. With --check it only compares."""

import argparse
import sys
import tempfile
from pathlib import Path

import yaml
from grpc_tools import protoc

from gpusharing.api import crd

ROOT = Path(__file__).parent.parent
CRDS = Path("crds")
MESSAGES = Path("operator/gpusharing/agent/dra/pb")


class _PlainDumper(yaml.SafeDumper):
    """Without anchors: people read these files."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def write_crds(directory: Path) -> None:
    for definition in crd.DEFINITIONS:
        text = yaml.dump(crd.to_crd(definition), Dumper=_PlainDumper, sort_keys=False, width=120)
        header = "# Generated from operator/gpusharing/api by `make generate`; do not edit.\n"
        (directory / f"{definition.name}.yaml").write_text(header + text)


def write_messages(directory: Path) -> None:
    sources = sorted(str(path) for path in (ROOT / MESSAGES).glob("*.proto"))
    outputs = [f"--python_out={directory}", f"--pyi_out={directory}"]
    if protoc.main(["protoc", f"--proto_path={ROOT / MESSAGES}", *outputs, *sources]) != 0:
        raise SystemExit("protoc failed")


def generate(root: Path) -> None:
    for directory, write in ((CRDS, write_crds), (MESSAGES, write_messages)):
        (root / directory).mkdir(parents=True, exist_ok=True)
        write(root / directory)


def outdated() -> list[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = [path for path in sorted(Path(scratch).rglob("*")) if path.is_file()]
        checked_in = {path: ROOT / path.relative_to(scratch) for path in fresh}
        return [old for new, old in checked_in.items() if not old.exists() or old.read_bytes() != new.read_bytes()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a file is not as it would be generated")
    if not parser.parse_args().check:
        generate(ROOT)
    elif different := outdated():
        sys.exit(f"run `make generate`: {', '.join(str(path.relative_to(ROOT)) for path in different)} would change")


if __name__ == "__main__":
    main()
