"""The C header of the state, generated so that there is one definition of the layout."""

from __future__ import annotations

import ctypes
import re
import zlib
from enum import Enum
from functools import cache
from typing import Any

from gpusharing.sim.devices import Capability, Major
from gpusharing.sim.quirks import Quirk
from gpusharing.sim.state import (
    MAGIC,
    CgroupState,
    ComputeInstanceState,
    ComputeMode,
    ComputeProfileState,
    DriverState,
    EventState,
    FaultEffect,
    FaultState,
    GpuInstanceState,
    GpuProfileState,
    GpuState,
    Media,
    MemoryLimitState,
    MpsFault,
    NodeState,
    ProcessKind,
    ProcessState,
    Timeslice,
    fields,
)

_C_TYPES = {ctypes.c_uint32: "uint32_t", ctypes.c_int32: "int32_t", ctypes.c_uint64: "uint64_t", ctypes.c_char: "char"}


def c_header() -> str:
    return "\n".join(
        (
            "/* Generated from gpusharing.sim.state, gpusharing.sim.devices and gpusharing.sim.quirks. */",
            "#pragma once",
            "#include <stddef.h>",
            "#include <stdint.h>",
            f"#define STATE_MAGIC {MAGIC:#x}ULL",
            f"#define STATE_LAYOUT {layout_version():#x}U",
            _definitions(),
            "",
        )
    )


def layout_version() -> int:
    """A number of the layout itself: nobody can forget to raise it."""
    return zlib.crc32(_definitions().encode())


@cache
def _definitions() -> str:
    enums = (ComputeMode, Timeslice, ProcessKind, Media, FaultEffect, MpsFault, Major, Capability, Quirk)
    # A structure comes after those that it contains.
    structs = (
        CgroupState,
        ProcessState,
        ComputeProfileState,
        GpuProfileState,
        ComputeInstanceState,
        GpuInstanceState,
        GpuState,
        FaultState,
        EventState,
        MemoryLimitState,
        DriverState,
        NodeState,
    )
    return "\n".join((*map(_enum, enums), *map(_struct, structs)))


def _enum(enum: type[Enum]) -> str:
    prefix = _snake_case(enum.__name__)
    members = ", ".join(f"{prefix.upper()}_{member.name} = {member.value}" for member in enum)
    return f"enum {prefix} {{ {members} }};"


def _struct(struct: type[ctypes.Structure]) -> str:
    name = f"struct {_snake_case(struct.__name__)}"
    members = [f"\t{_declaration(field, c_type)};" for field, c_type in fields(struct)]
    # The compiler confirms that ctypes laid the structure out as C does.
    checks = [
        f"_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, {_quoted(name)});",
        *(
            f"_Static_assert(offsetof({name}, {field}) == {getattr(struct, field).offset}, {_quoted(field)});"
            for field, _ in fields(struct)
        ),
    ]
    return "\n".join((f"{name} {{", *members, "};", *checks))


def _declaration(field: str, c_type: Any) -> str:
    if issubclass(c_type, ctypes.Array):
        return f"{_type_name(c_type._type_)} {field}[{c_type._length_}]"
    return f"{_type_name(c_type)} {field}"


def _type_name(c_type: Any) -> str:
    return _C_TYPES.get(c_type) or f"struct {_snake_case(c_type.__name__)}"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _quoted(text: str) -> str:
    return f'"{text}"'
