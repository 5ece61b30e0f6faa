"""Kubernetes' named formats of strings."""

from typing import Final

TABLE: Final = """
format.byte
    format.byte: () -> kubernetes.NamedFormat
format.date
    format.date: () -> kubernetes.NamedFormat
format.datetime
    format.datetime: () -> kubernetes.NamedFormat
format.dns1035Label
    format.dns1035Label: () -> kubernetes.NamedFormat
format.dns1035LabelPrefix
    format.dns1035LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Label
    format.dns1123Label: () -> kubernetes.NamedFormat
format.dns1123LabelPrefix
    format.dns1123LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Subdomain
    format.dns1123Subdomain: () -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix
    format.dns1123SubdomainPrefix: () -> kubernetes.NamedFormat
format.labelValue
    format.labelValue: () -> kubernetes.NamedFormat
format.named
    format-named: (string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName
    format.qualifiedName: () -> kubernetes.NamedFormat
format.uri
    format.uri: () -> kubernetes.NamedFormat
format.uuid
    format.uuid: () -> kubernetes.NamedFormat
validate
    format-validate: kubernetes.NamedFormat.(string) -> optional_type(list(string))
"""
