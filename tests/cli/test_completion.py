"""A real shell completes what the commands know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What bash does when somebody presses the tab key behind LINE.
_TAB = """
eval "$(gpusharing completion bash)"
complete -p gpusharing kubectl-gpusharing > /dev/null || exit 1
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=9 COMP_WORDBREAKS=$' \\t\\n'
_python_argcomplete gpusharing
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpusharing pl", {"plan "}),
        ("gpusharing do", {"doctor "}),
        ("gpusharing doctor --pr", {"--pre", "--probe"}),
        ("gpusharing s", {"snapshot", "sim"}),
        ("gpusharing explain p", {"pod", "policy"}),
        ("gpusharing export ", {"kueue", "volcano", "-h", "--help"}),
        ("gpusharing export kueue --charge ", {"devices", "shares", "memory"}),
        ("gpusharing explain --kube", {"--kubeconfig "}),
        ("gpusharing top -g n", {"node", "namespace"}),
        ("gpusharing plan -o m", {"markdown "}),
        ("gpusharing ui -o ", {"html "}),
        ("gpusharing completion ", {"bash", "zsh", "fish", "-h", "--help"}),
        ("gpusharing nothing --x", {""}),
    ],
)
def test_bash_completes(line: str, expected: set[str], tmp_path: Path) -> None:
    directory = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}", "LINE": line}
    done = subprocess.run(
        ["bash", "--norc", "-c", _TAB], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.splitlines()) == expected, done.stderr
