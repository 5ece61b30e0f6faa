"""Commands say of an anonymous bundle what they say of the cluster, with other names."""

from pathlib import Path
from typing import Any

import pytest

from explaining.scenes import SCENES
from gpusharing.cli.vocabulary import vocabulary
from gpusharing.snapshots import archive, file
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.pseudonyms import Pseudonyms
from install.replay import said


@pytest.mark.parametrize("name", SCENES)
def test_explanations_come_out_the_same(name: str, tmp_path: Path) -> None:
    make, (kind, what), status = SCENES[name]
    world = make()
    pseudonyms = Pseudonyms.of(world, salt=b"salt", vocabulary=vocabulary())
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(archive.pack({archive.SNAPSHOT: file.dumps(anonymous(world, pseudonyms)).encode()}))
    namespace = pseudonyms.name("ml")
    found = said("explain", kind, pseudonyms.name(what), "-n", namespace, "--snapshot", path)
    path.write_text(file.dumps(world))
    expected = said("explain", kind, what, "-n", "ml", "--snapshot", path)
    assert found[0] == expected[0] == status
    assert shape(found[1]) == shape(expected[1])
    # What the scheduler says is read, too.
    assert ("cannot allocate all claims" in str(found[1])) == ("cannot allocate all claims" in str(expected[1]))


def shape(explanation: Any) -> Any:
    """All but the names."""
    findings = [(one["code"], len(one["message"].split())) for one in explanation["findings"]]
    return explanation["state"], findings, explanation.get("scheduler", "").count(" ")
