import argparse

import pytest

from gpusharing.controller import command


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    return parser.parse_args(["operator", *options])


def test_a_lease_is_long_enough_to_be_renewed() -> None:
    assert parsed("--lease-duration=3").lease_duration == 3


@pytest.mark.parametrize("duration", ["2", "0", "-5"])
def test_a_lease_that_is_too_short_is_refused(duration: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(f"--lease-duration={duration}")
    assert f"{duration} s is too short: must be at least 3" in capsys.readouterr().err
