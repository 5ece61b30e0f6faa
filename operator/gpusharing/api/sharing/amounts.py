"""Amounts as people write them: numbers, percentages, memory."""

from typing import Annotated, Final

from pydantic import Field

from gpusharing.api.sharing.rules import checked, rule, validated

CountOrPercentage = Annotated[
    int | str,
    checked('a number of at least 1, or a percentage from "1%" to "100%"', "([1-9][0-9]?|100)%"),
    Field(
        json_schema_extra=validated(
            rule(
                "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
                'must be a number of at least 1, or a percentage from "1%" to "100%"',
            )
        )
    ),
]

# Whole mebibytes: the unit in which limits are set on the hardware.
Memory = Annotated[
    str,
    checked('an amount such as "8Gi", or a percentage from "1%" to "100%"', "([1-9][0-9]?|100)%|[1-9][0-9]*(Mi|Gi|Ti)"),
    Field(
        max_length=16,
        json_schema_extra=validated(
            rule(
                "self.matches('^([1-9][0-9]?|100)%$|^[1-9][0-9]*(Mi|Gi|Ti)$')",
                'must be a whole number of Mi, Gi or Ti ("8Gi"), or a percentage of the GPU from "1%" to "100%"',
            )
        ),
    ),
]

AMOUNT: Final = (
    checked('an amount such as "20Gi"', "[1-9][0-9]*(Mi|Gi|Ti)"),
    Field(
        max_length=16,
        json_schema_extra=validated(
            rule("self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')", 'must be a whole number of Mi, Gi or Ti ("20Gi")')
        ),
    ),
)
"""What is asked of a text that is an amount of memory, and no percentage."""


def in_order(smaller: str, larger: str) -> dict[str, str]:
    """Amounts can be compared with amounts and percentages with percentages; the rest depends on the GPU."""
    low, high = f"self.{smaller}", f"self.{larger}"
    both_given = f"has({low}) && has({high})"
    percentages = f"{low}.endsWith('%') && {high}.endsWith('%')"
    amounts = f"!{low}.endsWith('%') && !{high}.endsWith('%')"
    fewer_percent = f"int({low}.replace('%', '')) <= int({high}.replace('%', ''))"
    smaller_amount = f"quantity({low}).compareTo(quantity({high})) <= 0"
    return rule(
        f"!({both_given}) || (!({percentages}) || {fewer_percent}) && (!({amounts}) || {smaller_amount})",
        f"{smaller} must be less than or equal to {larger}",
        field_path=f".{smaller}",
    )
