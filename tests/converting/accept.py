"""Writes what the inputs become now as what is expected. Look at the difference before you commit it."""

from converting.test_inputs import EXPECTED, INPUTS, converted

if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for stale in EXPECTED.iterdir():
        stale.unlink()
    for path in INPUTS:
        text, remarks = converted(path)
        (EXPECTED / path.name).write_bytes(text.encode())
        (EXPECTED / f"{path.name}.remarks").write_text(remarks)
