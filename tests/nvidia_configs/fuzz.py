"""`make fuzz-config`: compares what we make of opaque parameters with what NVIDIA's driver makes of them."""

import argparse
import sys
from collections import Counter

from harness.toolchain import build_config_check
from nvidia_configs.comparison import differences
from nvidia_configs.generator import Configs

_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.count} configs", flush=True)
    configs = Configs(arguments.seed)
    found = differences([configs.text() for _ in range(arguments.count)], build_config_check())
    meant = Counter(one.reason for one in found if one.reason)
    for reason, count in meant.most_common():
        print(f"{count:7} meant: {reason}")
    mistakes = [one for one in found if not one.reason]
    for one in mistakes[:_SHOWN]:
        print(one)
    print(f"{arguments.count - len(found)} the same, {meant.total()} meant to differ, {len(mistakes)} differences")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
