"""Semantic versions."""

from cel.generator import values
from cel.generator.grammar import rule, rules
from cel.generator.kinds import Kind
from cel.generator.quoting import quoted
from cel.generator.writing import Writer

rules("""
1 semver: semver($versionText)
0.5 semver: semver($versionText, $bool)
0.2 semver: semver($string)
1 bool: isSemver($versionText)
0.5 bool: isSemver($versionText, $bool)
1 bool: $semver.isGreaterThan($semver)
1 bool: $semver.isLessThan($semver)
0.5 int: $semver.compareTo($semver)
0.3 int: $semver.major()
0.3 int: $semver.minor()
0.3 int: $semver.patch()
0.2 int: $dyn.major()
0.2 int: $dyn.compareTo($semver)
0.3 bool: ($semver.major() >= $int)
0.3 bool: ($semver.minor() == $int)
0.3 bool: ($semver.patch() == $int)
0.3 bool: ($semver == $string)
0.1 versionText: $string
""")


@rule("semver", 3, leaf=True)
def _semver(writer: Writer, _kind: Kind, _fuel: int) -> str:
    return f"semver({_version_text(writer, _kind, _fuel)})"


@rule("versionText", 5, leaf=True)
def _version_text(writer: Writer, _kind: Kind, _fuel: int) -> str:
    pool = values.ODD_VERSIONS if writer.random.random() < 0.15 else values.VERSIONS
    return quoted(writer.random, writer.random.choice(pool))
