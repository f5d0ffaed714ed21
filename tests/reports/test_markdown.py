"""Markdown: tables that are tables, and text that stays text."""

from raybench.reports.markdown import escaped, render_markdown

from .sample import cluster, pairs, point, run_result, sweep


def test_tables_have_one_width() -> None:
    text = render_markdown(run_result(sweep(), sweep(in_place=True), pairs(4, slow=[(0, 3)])))
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 2
    for block in blocks:
        assert len({line.replace("\\|", "").count("|") for line in block}) == 1
    assert "out-of-place time (us) | " in blocks[1][0]
    assert "slowest pair rank 0 (node-0) -\\> rank 3 (node-1)" in text


def test_emulated_wrong_and_skipped_are_said() -> None:
    wrong = sweep(points=(point(1024, wrong_elements=3, verified=False),))
    skipped = sweep("gather", points=(), status="skipped", reason="gloo has none")
    text = render_markdown(run_result(wrong, skipped, cluster=cluster(emulated=True)))
    assert "> **EMULATED: 2 nodes" in text
    assert "| **3** |" in text
    assert "- gather, skipped: gloo has none" in text


def test_hostile_text_is_escaped() -> None:
    hostile = "<script>|[x](javascript:a)\n# h\x1b[31m"
    text = render_markdown(run_result(sweep(hostile, reason=hostile), run_id=hostile))
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\n# h" not in text


def test_escaped_shows_what_was_written() -> None:
    assert escaped("a_b|c") == "a\\_b\\|c"
