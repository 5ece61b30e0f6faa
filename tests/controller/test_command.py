import argparse

import pytest

from gpusharing.controller import command


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    return parser.parse_args(["operator", *options])


def test_a_lease_is_long_enough_to_be_renewed() -> None:
    assert parsed("--lease-duration=3").lease_duration == 3


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--lease-duration=2", "'2' is not a whole number of at least 3 seconds"),
        ("--lease-duration=-5", "'-5' is not a whole number of at least 3 seconds"),
        ("--lease-duration=15s", "'15s' is not a whole number of at least 3 seconds"),
        ("--idle-wait=-1", "'-1' is not a number of seconds of at least 0"),
        ("--idle-wait=nan", "'nan' is not a number of seconds of at least 0"),
        ("--idle-wait=1h", "'1h' is not a number of seconds of at least 0"),
        # Guards, classes and names of devices are those of one driver.
        ("--driver=other", "unrecognized arguments: --driver=other"),
        ("--listen=8080", "'8080' is not HOST:PORT, such as 0.0.0.0:8080"),
    ],
)
def test_what_is_refused_names_the_flag_and_the_rule(option: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(option)
    shown = capsys.readouterr().err
    assert why in shown
    assert option.partition("=")[0] in shown
