"""GSH10xx: what `export` cannot express for systems that queue jobs."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NO_CLASSES: Final = Entry(
    code="GSH1001",
    severity=Severity.WARNING,
    title="Policy without device classes",
    sentence="Policy {policy} is not exported, because it has no device classes: {why}.",
    remedy="{remedy}",
)
TOO_MANY_CLASSES: Final = Entry(
    code="GSH1002",
    severity=Severity.ERROR,
    title="More device classes than Kueue can map",
    sentence="The policies have {count} device classes, and Kueue takes at most {most} deviceClassMappings.",
    remedy="Export only the policies for whose GPUs jobs are queued: give their files with -f.",
)
NO_QUOTA: Final = Entry(
    code="GSH1003",
    severity=Severity.WARNING,
    title="No quota to take over",
    sentence="The nominalQuota of {resource} is 0, because {why}.",
    remedy="Replace the 0 in each ClusterQueue with what its jobs may use together.",
)
CHARGED_ALIKE: Final = Entry(
    code="GSH1004",
    severity=Severity.INFO,
    title="Different devices are charged alike",
    sentence="A claim of class {device_class} is charged as one device, {however}.",
    remedy="{remedy}",
)
CHARGED_IN_DEVICES: Final = Entry(
    code="GSH1005",
    severity=Severity.WARNING,
    title="Charged in devices",
    sentence="Class {device_class} is charged in devices and not in {unit}, because {why}.",
    remedy="{remedy}",
)
RESOURCE_REFUSED: Final = Entry(
    code="GSH1006",
    severity=Severity.WARNING,
    title="Extended resource that Kueue does not admit",
    sentence="Kueue admits no job that asks for {resource}: class {device_class} is charged in {unit}, which Kueue "
    "supports for templates of claims only.",
    remedy="Use a ResourceClaimTemplate in such jobs, or --charge devices.",
)
NOT_CHARGEABLE: Final = Entry(
    code="GSH1007",
    severity=Severity.WARNING,
    title="Jobs that Kueue does not admit",
    sentence="Kueue admits no job with {object}: {limitation}.",
    remedy="{remedy}",
)
ZERO_IS_NO_LIMIT: Final = Entry(
    code="GSH1008",
    severity=Severity.WARNING,
    title="Quota that Volcano does not enforce",
    sentence="{quota_field} of policy {policy} is 0, which Volcano takes for no limit.",
    remedy="Nothing has to be done: the ResourceQuota of the policy refuses these claims.",
)
NOT_COUNTED: Final = Entry(
    code="GSH1009",
    severity=Severity.WARNING,
    title="Claims that Volcano does not count",
    sentence="Volcano counts no devices for {object}: {limitation}.",
    remedy="{remedy}",
)

ENTRIES: Final = (
    NO_CLASSES,
    TOO_MANY_CLASSES,
    NO_QUOTA,
    CHARGED_ALIKE,
    CHARGED_IN_DEVICES,
    RESOURCE_REFUSED,
    NOT_CHARGEABLE,
    ZERO_IS_NO_LIMIT,
    NOT_COUNTED,
)
