"""Random selectors and random devices: the same for the same seed, everywhere.

A grammar of typed rules (`grammar`) is filled by one module per area of the language; `writing` follows the rules to a
tree of text (`text`), which can be spoiled (`mistakes`) and shrunk (`cel.shrinking`). `cases` puts it all together.
"""
