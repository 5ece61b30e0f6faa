"""From what a GPU is and how it is to be offered to what the scheduler reads: devices, counters and slices."""

from gpusharing.core.offers.attributes import board_attributes, semantic_version
from gpusharing.core.offers.devices import attributes_of, device_names, devices, full_menu, remembered
from gpusharing.core.offers.entries import Entry, Standing
from gpusharing.core.offers.menu import Menu, menu, whole_only
from gpusharing.core.offers.offered import AS_FOUND, OfferedGpu
from gpusharing.core.offers.options import Option, can_be_held_together, of_device
from gpusharing.core.offers.slices import PublishedGpu, slice_specs

__all__ = [
    "AS_FOUND",
    "Entry",
    "Menu",
    "OfferedGpu",
    "Option",
    "PublishedGpu",
    "Standing",
    "attributes_of",
    "board_attributes",
    "can_be_held_together",
    "device_names",
    "devices",
    "full_menu",
    "menu",
    "of_device",
    "remembered",
    "semantic_version",
    "slice_specs",
    "whole_only",
]
