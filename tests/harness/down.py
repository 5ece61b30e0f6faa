"""Stops the cluster of harness.up. `python -m harness.down --dir .cluster`."""

import argparse
from pathlib import Path

from harness import supervisor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    directory = parser.parse_args().dir
    ended = supervisor.stop(directory)
    print(f"The cluster of {directory} has ended." if ended else f"No cluster runs for {directory}.")


if __name__ == "__main__":
    main()
