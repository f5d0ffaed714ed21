"""Every page in a real browser: nothing sticks out at 390 pixels, no label covers another, all text can be read."""

from pathlib import Path

import pytest

from .browser import chromium, measured
from .gallery import pages

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: install chromium to run this test")


@pytest.fixture(scope="module")
def gallery() -> dict[str, str]:
    return dict(pages(large=False))


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1400, False)])
def test_every_page_fits_its_screen_and_can_be_read(
    gallery: dict[str, str], tmp_path: Path, width: int, dark: bool
) -> None:
    found = measured(gallery, tmp_path, width=width, dark=dark)
    assert set(found) == set(gallery)
    for name, page in found.items():
        assert (page["inner"], page["dark"]) == (width, dark)
        assert page["scroll"] <= width, (name, page["wide"])
        assert page["wide"] == [], name
        assert page["covering"] == [], name
        assert page["faint"] == {}, name
        assert page["unnamed"] == [], name
        assert page["smallest"] is None or page["smallest"] >= 8, name
