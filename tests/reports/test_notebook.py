"""Documents as a program or a notebook shows them: figures in real colours, reports in a frame without scripts."""

import builtins
import html
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import raybench
from raybench.errors import MissingLibraryError
from raybench.reports.plots.svg import VARIABLES
from raybench.services.run import FinishedRun
from tests.documents.mutation import REPORTS
from tests.reports.gallery import checkpoint_run, memory_run, training_run
from tests.reports.sample import pairs, run_result

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def sample(name: str) -> Any:
    return raybench.load(next(path for path in REPORTS if path.stem.startswith(name)))


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (run_result(), {"bandwidth", "latency"}),
        (training_run(), {"loss", "step-time", "phases"}),
        (memory_run(), {"memory-0"}),
        (checkpoint_run(), {"checkpoint-times"}),
        (sample("study-network"), {"network"}),
        (sample("study-scaling"), {"drift"}),
        (sample("fabric-5c77f31"), {"rail-0"}),
    ],
    ids=["collectives", "training", "memory", "checkpoint", "network", "scaling", "fabric"],
)
def test_figures_are_those_of_the_report_in_colours_that_can_be_seen(document: Any, names: set[str]) -> None:
    figures = raybench.figures(document)
    page = raybench.html(document)
    assert names <= figures.keys()
    for name, figure in figures.items():
        assert isinstance(figure, Figure)
        assert f'id="{name}-title"' in page
        assert not placeholders(figure), name
        assert figure.get_facecolor() == (1, 1, 1, 1)


def placeholders(figure: Figure) -> set[str]:
    """Colours in a figure that stand for the page's."""
    found = set()
    for artist in figure.findobj():
        for name in ("get_color", "get_facecolor", "get_edgecolor", "get_markerfacecolor", "get_markeredgecolor"):
            value = getattr(artist, name, lambda: "none")()
            rows = value if getattr(value, "ndim", 1) == 2 else [value]
            found |= {to_hex(row) for row in rows if not isinstance(row, str) or row not in {"none", "auto"}}
    return found & set(VARIABLES)


def test_what_draws_nothing_has_no_figures() -> None:
    assert raybench.figures(sample("estimate")) == {}
    assert raybench.figures(sample("preflight-dbd4ec7")) == {}


ONE_OF_EACH = {path.stem.rpartition("-")[0]: path for path in REPORTS}


@pytest.mark.parametrize("path", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
def test_a_notebook_shows_every_document(path: Path) -> None:
    shown = raybench.load(path)._repr_html_()
    assert shown.startswith("<iframe sandbox ")
    assert len(re.findall(r"<[a-z]", shown)) == 1  # all else is in srcdoc, escaped


def test_what_a_host_wrote_stays_text() -> None:
    run = run_result()
    node = type(run.cluster.nodes[0])(name=HOSTILE, address="10.0.0.1", ranks=(0, 1), gpu_count=2)
    cluster = type(run.cluster)(nodes=(node, run.cluster.nodes[1]), world_size=4, backend="gloo", emulated=False)
    names = {name: getattr(run, name) for name in run.__struct_fields__}
    hostile = type(run)(**names | {"cluster": cluster, "run_id": HOSTILE})
    for document in (
        hostile,
        FinishedRun(result=hostile, diagnosis=None, folder=Path(), report=None, kept=True, remarks=()),
    ):
        shown = document._repr_html_()
        page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
        assert "alert(1)" in page
        assert "<script" not in page
        assert "<img" not in page
        assert 'sandbox title="' in shown  # no allow-scripts


def test_without_its_libraries_a_report_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] in {"jinja2", "matplotlib"}:
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    assert re.match(r"<pre>the HTML report needs jinja2.*pip install.*</pre>$", run_result()._repr_html_())
    with pytest.raises(MissingLibraryError, match="figures need matplotlib, which is not installed: pip install"):
        raybench.figures(run_result())


def test_the_matrix_of_pairs_is_a_figure() -> None:
    run = run_result()
    names = {name: getattr(run, name) for name in run.__struct_fields__}
    figures = raybench.figures(type(run)(**names | {"benchmarks": (pairs(),)}))
    assert [name for name in figures if name.startswith("pairs-0-")]
