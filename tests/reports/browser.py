"""Headless Chromium on one page at a time: what its layout is, as a script inside the page measures it.

The pages forbid scripts to themselves, so a copy without that rule is measured.
"""

import html
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
LIMIT_SECONDS = 60

# Width of the page and of what sticks out of it; texts of a plot that cover each other; contrast of each text.
SCRIPT = """
const round = number => Math.round(number * 10) / 10;
const scrolls = element => { for (let one = element; one; one = one.parentElement) {
  if (["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX)) return true; } return false; };
const wide = [...document.body.querySelectorAll("*")].filter(one => !one.closest("svg") && !scrolls(one.parentElement)
  && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.tagName + "." + one.className);
const covering = [];
for (const drawing of document.querySelectorAll("svg")) {
  const texts = [...drawing.querySelectorAll("text")].filter(one => one.textContent.trim());
  const boxes = texts.map(one => one.getBoundingClientRect());
  const frame = drawing.getBoundingClientRect();
  for (let i = 0; i < texts.length; i++) {
    const a = boxes[i];
    if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.top < frame.top - 2 || a.bottom > frame.bottom + 2)
      covering.push("outside: " + texts[i].textContent);
    for (let j = i + 1; j < texts.length; j++) {
      const b = boxes[j];
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1.5 && y > 3) covering.push(texts[i].textContent + " | " + texts[j].textContent);
    }
  }
}
const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
const light = colour => { const part = colour.slice(0, 3).map(one => one / 255).map(
  one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]; };
const behind = element => { for (let one = element; one; one = one.parentElement) {
  const colour = parts(getComputedStyle(one).backgroundColor);
  if (colour.length === 3 || colour[3] > 0) return colour; } return [255, 255, 255]; };
const faint = {};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || element.closest("script, style, svg")) continue;
  const values = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
  const ratio = (values[0] + 0.05) / (values[1] + 0.05);
  if (ratio < 4.5) faint[element.tagName + "." + element.className] = round(ratio);
}
const unnamed = [...document.querySelectorAll("svg *")].filter(one => ["fill", "stroke"].some(
  name => /^rgb\\(10, 1[12], /.test(getComputedStyle(one)[name]))).map(one => one.tagName);
const letters = [...document.querySelectorAll("svg text")].map(one => one.getBoundingClientRect().height);
const found = {inner: innerWidth, scroll: document.scrollingElement.scrollWidth, wide: [...new Set(wide)].slice(0, 9),
  covering: covering.slice(0, 9), faint, unnamed: unnamed.slice(0, 9),
  smallest: letters.length ? round(Math.min(...letters)) : null,
  dark: matchMedia("(prefers-color-scheme: dark)").matches, page: location.pathname.split("/").pop()};
parent.postMessage(found, "*");
"""


# A window is never narrower than 500 pixels; a frame in it may be. All pages are frames of one: one start of the
# browser does for all.
OUTER = """<body style="margin:0"><pre id="found"></pre><script>
const all = [];
addEventListener("message", event => { all.push(event.data);
  document.getElementById("found").textContent = JSON.stringify(all); });
</script>{frames}</body>"""
FRAME = '<iframe src="{page}" style="border:0;width:{width}px;height:1200px"></iframe>'


def chromium() -> str | None:
    """The browser, or None where there is none."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


def measured(pages: Mapping[str, str], folder: Path, *, width: int, dark: bool) -> dict[str, dict[str, Any]]:
    """What the script finds in each page at that width."""
    for name, page in pages.items():
        copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        (folder / f"{name}.html").write_text(copy.replace("</body>", f"<script>{SCRIPT}</script></body>"))
    frames = "".join(FRAME.format(page=f"{name}.html", width=width) for name in pages)
    outer = folder / "all-pages.html"
    outer.write_text(OUTER.replace("{frames}", frames))
    shown = run(
        ["--window-size=1600,1300", "--virtual-time-budget=9000", "--dump-dom", outer.as_uri()], folder, dark=dark
    )
    answer = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert answer, f"the pages were not measured: {shown[:300]}"
    found = json.loads(html.unescape(answer[1]))
    return {one["page"].removesuffix(".html"): one for one in found}


def run(arguments: list[str], folder: Path, *, dark: bool = False) -> str:
    """What Chromium prints. Its whole group is ended where it takes too long."""
    browser = chromium()
    assert browser is not None
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [browser, *FLAGS, scheme, f"--user-data-dir={folder / 'profile'}", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=LIMIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
