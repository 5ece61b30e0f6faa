"""Durations and timestamps."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.writing import Writer

rules("""
0.5 duration: duration($string)
0.5 duration: duration($duration)
0.05 duration: duration($int)
1 duration: ($duration + $duration)
1 duration: ($duration - $duration)
1 duration: ($timestamp - $timestamp)
0.5 timestamp: timestamp($string)
0.7 timestamp: timestamp($int)
0.5 timestamp: timestamp($timestamp)
1 timestamp: ($timestamp + $duration)
0.5 timestamp: ($duration + $timestamp)
1 timestamp: ($timestamp - $duration)
0.2 ~timestamp: ($dyn + $duration)
0.2 ~duration: ($dyn - $timestamp)
0.2 timestamp: timestamp($dyn)
0.2 duration: duration($dyn)
timePart: $timestamp.getFullYear()
timePart: $timestamp.getMonth()
timePart: $timestamp.getDate()
timePart: $timestamp.getDayOfMonth()
timePart: $timestamp.getDayOfWeek()
timePart: $timestamp.getDayOfYear()
timePart: $timestamp.getHours()
timePart: $timestamp.getMinutes()
timePart: $timestamp.getSeconds()
timePart: $timestamp.getMilliseconds()
timePart: $timestamp.getFullYear($zone)
timePart: $timestamp.getMonth($zone)
timePart: $timestamp.getDate($zone)
timePart: $timestamp.getDayOfMonth($zone)
timePart: $timestamp.getDayOfWeek($zone)
timePart: $timestamp.getDayOfYear($zone)
timePart: $timestamp.getHours($zone)
timePart: $timestamp.getMinutes($zone)
timePart: $timestamp.getSeconds($zone)
timePart: $timestamp.getMilliseconds($zone)
timePart: $duration.getHours()
timePart: $duration.getMinutes()
timePart: $duration.getSeconds()
timePart: $duration.getMilliseconds()
0.3 timePart: $dyn.getHours()
0.3 timePart: $dyn.getHours($zone)
0.8 int: $timePart
1.5 bool: ($timePart == $int)
1.5 bool: ($timePart > $int)
0.1 zone: $string
""")


@rule("duration", 3, leaf=True)
def _duration(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"duration({_text(writer, values.DURATIONS, values.ODD_DURATIONS)})"


@rule("timestamp", 3, leaf=True)
def _timestamp(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"timestamp({_text(writer, values.TIMESTAMPS, values.ODD_TIMESTAMPS)})"


@rule("zone", 5, leaf=True)
def _zone(writer: Writer, _kind: Kind, _fuel: int) -> str:
    pool = values.ODD_ZONES if writer.random.random() < 0.15 else values.ZONES
    return quoted(writer.random, writer.random.choice(pool))


def _text(writer: Writer, usual: tuple[str, ...], odd: tuple[str, ...]) -> str:
    """Mostly good: a literal that is none is a compile error. One in a conditional is only found out when it runs."""
    if writer.random.random() < 0.9:
        literal = quoted(writer.random, writer.random.choice(usual))
    else:
        literal = quoted(writer.random, writer.random.choice(odd))
        if writer.random.random() < 0.7:
            return f'({literal} + "")'
    return literal
