"""From text to a tree: cel-python's grammar, cel-go's tokens, literals, macros and limits."""
