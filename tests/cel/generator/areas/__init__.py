"""What the language has, one module per area. Importing a module adds its rules to the grammar."""

from cel.generator.areas import (
    attributes,
    lists,
    literals,
    logic,
    macros,
    maps,
    networks,
    numbers,
    optionals,
    quantities,
    regexes,
    strings,
    times,
    type_values,
    validation,
    versions,
)

__all__ = [
    "attributes", "lists", "literals", "logic", "macros", "maps", "networks", "numbers", "optionals", "quantities",
    "regexes", "strings", "times", "type_values", "validation", "versions",
]  # fmt: skip
