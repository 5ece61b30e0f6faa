"""What the guards look up, whole; and that it can be told apart again."""

from hypothesis import given
from hypothesis import strategies as st

from building import policy
from gpusharing.api.meta import LabelSelector, LabelSelectorRequirement
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.tenants import Allowance, Strategy, Tenants
from gpusharing.core.cluster.guards import literals

EVERYTHING = Tenants(
    namespaces=LabelSelector(
        match_labels={"team": "search"},
        match_expressions=(
            LabelSelectorRequirement(key="stage", operator="NotIn", values=("test", 'a "quoted" one')),
            LabelSelectorRequirement(key="gpus", operator="Exists"),
        ),
    ),
    allow=Allowance(
        gpu_config=(Strategy.TIME_SLICING,),
        intervals=(Interval.DEFAULT, Interval.SHORT),
        max_threads=50,
        max_memory="20Gi",
        max_shares=1,
    ),
)


def test_everything_that_a_policy_says() -> None:
    said = policy("search", tenants=EVERYTHING)
    assert literals.tenants(said) == (
        '[["In", "team=search"], ["NotIn", "stage=test", "stage=a \\"quoted\\" one"], ["Exists", "gpus"]]'
    )
    assert literals.limits(said) == (
        '{"gpuConfig": ["TimeSlicing"], "intervals": ["Default", "Short"], "maxThreads": ["50"], '
        '"maxMemory": ["20Gi"], "maxShares": ["1"]}'
    )


def test_nothing_and_what_is_empty_are_told_apart() -> None:
    assert literals.limits(policy("open", tenants=Tenants(allow=Allowance(gpu_config=())))) == '{"gpuConfig": []}'


def test_an_entry_a_line() -> None:
    entries = {"b": literals.of("x"), "a": literals.of("y")}
    assert literals.render(entries) == '{\n"a": "y",\n"b": "x"\n}'
    assert literals.render({}) == "{}"


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(), max_size=3), max_size=5))
def test_what_was_rendered_is_read_as_it_was(values: dict[str, dict[str, str]]) -> None:
    entries = {key: literals.of(value) for key, value in values.items()}
    assert literals.read(literals.render(entries)) == entries


@given(st.text())
def test_what_somebody_else_wrote_is_read_as_far_as_it_goes(text: str) -> None:
    assert all(isinstance(entry, str) for entry in literals.read(text).values())
