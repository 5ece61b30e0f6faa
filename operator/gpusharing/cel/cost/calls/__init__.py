"""What calls are expected to cost, and how large their results.

Extensions of cel-go come first, then what Kubernetes knows by name, then cel-go's standard functions.
"""

from gpusharing.cel.cost.calls import extensions, kubernetes, standard
from gpusharing.cel.cost.calls.form import CallEstimate, CallForm, Operand
from gpusharing.cel.cost.ranges import ONE

__all__ = ["CallEstimate", "CallForm", "Operand", "estimate_call"]


def estimate_call(call: CallForm) -> CallEstimate:
    for estimator in (
        extensions.BY_OVERLOAD.get(call.overload),
        kubernetes.BY_FUNCTION.get(call.function),
        standard.BY_OVERLOAD.get(call.overload),
    ):
        if estimator is not None and (estimated := estimator(call)) is not None:
            return estimated
    return CallEstimate(ONE)
