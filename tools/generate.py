"""Writes what is generated and checked in: crds/. `make check` runs it and fails on a difference."""

from pathlib import Path

import yaml

from gpusharing.api import crd

ROOT = Path(__file__).parent.parent


class _PlainDumper(yaml.SafeDumper):
    """Without anchors: people read these files."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def main() -> None:
    for definition in crd.DEFINITIONS:
        text = yaml.dump(crd.to_crd(definition), Dumper=_PlainDumper, sort_keys=False, width=120)
        header = "# Generated from operator/gpusharing/api by `make generate`; do not edit.\n"
        (ROOT / "crds" / f"{definition.name}.yaml").write_text(header + text)


if __name__ == "__main__":
    main()
