"""Writes what is printed of the cases now as what is expected. Look at the difference before you commit it."""

import os

from sharing_tests.test_cases import CASES, EXPECTED, FORMATS, printed

if __name__ == "__main__":
    os.environ["COLUMNS"] = "120"
    EXPECTED.mkdir(exist_ok=True)
    for stale in EXPECTED.iterdir():
        stale.unlink()
    for path in CASES:
        for output, suffix in FORMATS.items():
            (EXPECTED / f"{path.stem}.{suffix}").write_text(printed(path, output))
