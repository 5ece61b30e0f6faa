"""Which pages the site has, by task. A page that is missing here, or there, ends the build."""

from typing import Final, NamedTuple


class Section(NamedTuple):
    title: str
    pages: tuple[str, ...]
    """Paths in the repository."""


START: Final = "docs/index.md"

NAVIGATION: Final = (
    Section("Try it", ("docs/quickstart-kind.md", "docs/simulation.md")),
    Section("Install", ("README.md", "docs/doctor.md", "charts/gpu-sharing/README.md", "docs/upgrading.md")),
    Section(
        "Share GPUs",
        (
            "docs/policies.md",
            "docs/claims.md",
            "docs/cel.md",
            "docs/plan.md",
            "docs/validate.md",
            "docs/test.md",
            "docs/forecast.md",
            "docs/recipes/README.md",
        ),
    ),
    Section("Keep tenants apart", ("docs/tenants.md", "docs/memory-walls.md", "docs/security.md")),
    Section("Migrate", ("docs/convert.md", "docs/export.md")),
    Section(
        "Operate",
        (
            "docs/operating.md",
            "docs/top.md",
            "docs/ui.md",
            "contrib/k9s/README.md",
            "docs/metrics.md",
            "docs/performance.md",
        ),
    ),
    Section("Troubleshoot", ("docs/explain.md", "docs/health.md", "docs/bundle.md")),
    Section("Understand", ("docs/architecture.md", "docs/hardware.md")),
    Section("Reference", ("docs/findings.md",)),
    Section("The project", ("CONTRIBUTING.md", "tests/harness/README.md", "SECURITY.md", "CHANGELOG.md")),
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


def pages() -> list[str]:
    listed = [page for section in NAVIGATION for page in section.pages]
    return [START, *listed, *(page for below in BELOW.values() for page in below)]
