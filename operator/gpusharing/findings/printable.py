"""What others wrote, for a terminal."""


def printable(text: str) -> str:
    """One line. It may neither move the cursor, nor change colours, nor turn the direction of the text around."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}" for one in text)
