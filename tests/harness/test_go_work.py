"""What is left of a build is known from what Go says."""

from pathlib import Path

import pytest

from harness.go_work import Work, downloads, module_archives, seconds_left, uncompiled

LISTING = """\
unsafe\tfalse\t\t/go/src/unsafe\tunsafe.go
example.dev/compiled\tfalse\t\t/mod/compiled\ta.go b.go
example.dev/new\ttrue\tbuild ID mismatch\t/mod/new\ta.go b.go
example.dev/above\ttrue\tstale dependency: example.dev/new\t/mod/above\t
example.dev/program\ttrue\tnot installed but available in build cache\t/mod/program\tmain.go
"""


def test_only_what_is_not_compiled_counts() -> None:
    assert uncompiled(LISTING) == {
        "example.dev/new": [Path("/mod/new/a.go"), Path("/mod/new/b.go")],
        "example.dev/above": [],
    }


def test_archives_of_modules() -> None:
    go_sum = "example.dev/a v1.0.0 h1:x=\nexample.dev/a v1.0.0/go.mod h1:y=\ngithub.com/BigCo/b v2.0.0+X h1:z=\n"
    assert module_archives(go_sum) == [
        "cache/download/example.dev/a/@v/v1.0.0.zip",
        "cache/download/github.com/!big!co/b/@v/v2.0.0+!x.zip",
    ]


def test_downloads_are_counted() -> None:
    assert downloads(["go: downloading example.dev/a v1.0.0", "go: finding it", "example.dev/a"]) == 1


def test_packages_are_counted_once_and_others_not() -> None:
    work = Work({"a": 1_000_000, "b": 2_000_000}, programs=1)
    assert (work.packages, work.packages_done, work.done, work.left) == (2, 0, 0, 4_500_000)
    work.note(["a", "# a: a warning", "a", "of-another-build"])
    assert (work.packages_done, work.done, work.left) == (1, 1_000_000, 3_500_000)
    work.note(["b"])
    work.note_linked()
    assert (work.packages_done, work.left) == (2, 0)


@pytest.mark.parametrize(
    ("done", "elapsed", "left"),
    [
        (0, 0, 100),  # as expected
        (0, 60, 200),  # nothing was seen yet: half as fast
        (3_000_000, 30, 70),  # as expected, all the time
        (6_000_000, 60, 40),
        (3_000_000, 3_600, 2_847),  # what was seen counts, not what was expected
    ],
)
def test_time_that_is_left(done: int, elapsed: float, left: float) -> None:
    work = Work({"begun": done, "rest": 10_000_000 - done}, programs=0)
    work.note(["begun"])
    assert seconds_left(work, elapsed=elapsed, expected_rate=100_000) == pytest.approx(left, rel=0.01)


def test_nothing_is_left_of_nothing() -> None:
    assert seconds_left(Work({}, programs=0), elapsed=0, expected_rate=1) == 0
