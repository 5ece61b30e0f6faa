"""The file that people open first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpusharing.bundling.programs import Choice
from gpusharing.core.text import counted

NAME: Final = "README.txt"

_TEXT: Final = """\
A bundle of gpusharing {version}, of Kubernetes 1.{minor}, read at {taken_at}.

It can be read without the cluster:
  gpusharing explain pod NAME -n NAMESPACE --snapshot FILE
  gpusharing plan -f POLICIES --snapshot FILE
  gpusharing top --snapshot FILE

snapshot.json  objects and Events, without annotations, environments, images and volumes of pods; no Secret
operator/POD   log.txt, of the container before it previous-log.txt, and metrics.txt
agents/NODE/POD  the same

{agents}
{names}
{unread}"""


@dataclass(frozen=True, kw_only=True)
class About:
    version: str
    minor: int
    taken_at: str
    choice: Choice
    unread: Sequence[str]
    is_anonymous: bool


def readme(about: About) -> str:
    names = "Names are replaced, each always by the same word." if about.is_anonymous else "Names are as they are."
    unread = ["What could not be read:", *(f"  {one}" for one in about.unread)] if about.unread else ["All was read."]
    return _TEXT.format(
        version=about.version,
        minor=about.minor,
        taken_at=about.taken_at,
        agents=agents(about.choice),
        names=names,
        unread="".join(f"{line}\n" for line in unread),
    )


def agents(choice: Choice) -> str:
    """Whose logs and metrics are there."""
    chosen = [one for one in choice.chosen if one.is_agent]
    unwell = sum(one.is_unwell for one in chosen)
    which = (
        f"of {unwell} of {choice.unwell} that are not well, and of {len(chosen) - unwell} others"
        if choice.unwell
        else "all agents are well"
    )
    return f"Logs and metrics of {len(chosen)} of {counted(choice.agents, 'agent')}: {which}."
