"""Which pages the site has, by task. A page that is missing here, or there, ends the build."""

from typing import Final, NamedTuple


class Section(NamedTuple):
    title: str
    pages: tuple[str, ...]
    """Paths in the repository."""


START: Final = "docs/index.md"

NAVIGATION: Final = (
    Section(
        "Try it",
        ("docs/demo.md", "docs/quickstart.md", "docs/quickstart-kind.md", "docs/simulation.md"),
    ),
    Section("Install", ("docs/install.md", "docs/doctor.md", "charts/gpu-sharing/README.md", "docs/upgrading.md")),
    Section(
        "Share GPUs",
        (
            "docs/policies.md",
            "docs/cookbook.md",
            "docs/claims.md",
            "docs/cel.md",
            "docs/plan.md",
            "docs/validate.md",
            "docs/test.md",
            "docs/forecast.md",
            "docs/export.md",
            "docs/recipes/README.md",
        ),
    ),
    Section("Keep tenants apart", ("docs/tenants.md", "docs/memory-walls.md", "docs/security.md")),
    Section("Migrate", ("docs/migrate.md", "docs/convert.md")),
    Section("Operate", ("docs/operating.md", "docs/top.md", "docs/ui.md", "contrib/k9s/README.md", "docs/metrics.md")),
    Section("Troubleshoot", ("docs/explain.md", "docs/health.md", "docs/bundle.md", "docs/faq.md")),
    Section(
        "Understand",
        (
            "docs/concepts.md",
            "docs/comparison.md",
            "docs/performance.md",
            "docs/hardware.md",
            "docs/ai-conformance.md",
            "docs/architecture.md",
        ),
    ),
    Section(
        "Reference",
        (
            "docs/reference/policies.md",
            "docs/reference/conditions.md",
            "docs/findings.md",
            "docs/reference/commands.md",
            "docs/glossary.md",
        ),
    ),
    Section(
        "The project",
        ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/harness/README.md", "SECURITY.md"),
    ),
)

# Pages of one page: the navigation shows them below it.
BELOW: Final = {
    "docs/recipes/README.md": (
        "docs/recipes/jupyterhub.md",
        "docs/recipes/karpenter.md",
        "docs/recipes/kserve.md",
        "docs/recipes/kubeflow-trainer.md",
        "docs/recipes/kuberay.md",
        "docs/recipes/kueue.md",
        "docs/recipes/nim.md",
        "docs/recipes/vllm.md",
        "docs/recipes/volcano.md",
    )
}


# Where the heading of a page says too little in a list.
TITLES: Final = {"README.md": "README", "charts/gpu-sharing/README.md": "Helm chart"}


def pages() -> list[str]:
    listed = [page for section in NAVIGATION for page in section.pages]
    return [START, *listed, *(page for below in BELOW.values() for page in below)]
