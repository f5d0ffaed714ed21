"""The site builds without a warning: no page is left out, no link leads nowhere, no picture is missing or stale."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from raybench.cli import COMMANDS
from raybench.version import __version__
from tests.site.pictures import LINES, PICTURES, PLACES, numbered, numbered_report, terminal

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(target / "trees")]
    done = subprocess.run(
        [*command, "docs", str(target / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return target / "html"


def test_every_command_is_on_the_page_of_commands(site: Path) -> None:
    text = (site / "_made/commands.html").read_text(encoding="utf-8")
    assert {name for name in COMMANDS if f'id="{name}"' not in text} == set()
    assert 'id="nodes-watch"' in text
    # Nothing but examples is a block of lines: 79 columns would have to be moved sideways on a phone.
    assert set(re.findall(r'class="highlight-(\w+)', text)) == {"sh"}
    assert "\N{EN DASH}" not in text.partition("<article")[2]  # two dashes stay two


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_the_pictures_are_those_that_the_script_makes() -> None:
    assert (PICTURES / "terminal.svg").read_text(encoding="utf-8") == terminal(), "make pictures"
    assert (PICTURES / "terminal-numbered.svg").read_text(encoding="utf-8") == numbered(terminal()), "make pictures"
    assert "://" not in terminal().replace("http://www.w3.org/", "").replace("https://www.textualize.io", "")


def test_the_guide_explains_each_number_of_its_pictures() -> None:
    guide = (ROOT / "docs/guide/reading-a-report.md").read_text(encoding="utf-8")
    screen, page = (re.findall(r"^(\d)\. ", part, re.MULTILINE) for part in guide.split("report.png"))
    assert screen == [str(number) for number in range(1, len(LINES) + 1)]
    assert page == [str(number) for number in range(1, len(PLACES) + 1)]
    assert numbered_report().count("border-radius:50%") == len(PLACES)  # every place is still in the page
    with pytest.raises(ValueError, match="no line"):
        numbered(terminal().replace("VERDICT", "ANSWER"))


def test_the_changelog_has_this_version_and_says_nothing_twice() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)(?: - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)
    assert headings[-2:] == [__version__, "Unreleased"]  # versions in the order of time
    bullets = re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE)
    assert len(bullets) > 30
    assert len(set(bullets)) == len(bullets)
