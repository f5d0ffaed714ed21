"""The help of a command on one screen: everything where it fits, else the first options of each topic."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from raybench.cli.usage.example import example_lines
from raybench.cli.usage.topic import OTHER, TOPICS, current_names, topic_of

SCREEN_LINES = 40
WIDTH = 79  # of a screen of 80 columns: the last one stays free
_EXAMPLES = 4  # of a page that leaves options out
_WIDEST_NAME = 28
_FIRST = {"Workload": 4, "Variants": 4, "Cluster": 2, "Hosts": 2}  # topics of which so many come before the next
_DEFAULT = re.compile(r"(?:\s*\[(?:default: )?[^]]*\])?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option: ``names`` as typed with its metavar, ``bare`` its first long name, ``text`` its help."""

    names: str
    bare: str
    text: str
    topic: str

    def brief(self, room: int) -> str:
        """The first sentence, cut at a word, and the default, in ``room`` columns."""
        found = _DEFAULT.search(self.text)
        default = found[0].strip() if found else ""
        said = _DEFAULT.sub("", self.text, count=1).rstrip(".")
        first = re.split(r"[.;:] (?=[A-Za-z])", said, maxsplit=1)[0]
        for text in (f"{said}  {default}", f"{first}  {default}", said, first):
            if len(text.strip()) <= room:
                return text.strip()
        return textwrap.shorten(first, room, placeholder=" ...")


def option_rows(command: click.Command, context: click.Context) -> list[OptionRow]:
    """The options of a command as declared, without old names."""
    rows = []
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and (record := option.get_help_record(context)):
            all_names = (*option.opts, *option.secondary_opts)
            names = current_names(all_names)
            shown = record[0]
            for old in set(all_names) - set(names):
                shown = re.sub(rf"(?:, )?(?<![\w-]){re.escape(old)}(?![\w-])", "", shown).removeprefix(", ")
            bare = next((name for name in names if name.startswith("--")), names[0])
            text = " ".join(record[1].split("\n"))
            if isinstance(option.type, click.Choice) and len(shown) > _WIDEST_NAME:
                shown = f"{', '.join(names)} NAME"
                text = _DEFAULT.sub(f" One of {', '.join(map(str, option.type.choices))}.\\g<0>", text, count=1)
            rows.append(OptionRow(names=shown, bare=bare, text=text, topic=topic_of(names)))
    return rows


def whole_page(command: click.Command, context: click.Context) -> list[str]:
    """Everything: the description, every option in full by topic, every example."""
    rows = option_rows(command, context)
    body: list[str] = []
    column = _column(rows)
    for title, members in _by_topic(rows):
        body += ["", f"{title}:"]
        for row in members:
            body += _full(row, column)
    return [*_head(command, context, whole=True), *body, *_tail(command)]


def screen(command: click.Command, context: click.Context) -> list[str]:
    """At most `SCREEN_LINES`: the whole page, else one with a line an option, else one with the first options."""
    whole = whole_page(command, context)
    if len(whole) <= SCREEN_LINES:
        return whole
    rows = option_rows(command, context)
    for tail in (_tail(command), _tail(command, _EXAMPLES)):
        page = _page(command, context, rows, {row.bare for row in rows}, tail)
        if len(page) <= SCREEN_LINES:
            return page
    return _first_options(command, context, rows, _tail(command, _EXAMPLES))


def _first_options(
    command: click.Command, context: click.Context, rows: Sequence[OptionRow], tail: Sequence[str]
) -> list[str]:
    """Options get a line, the first of each topic before its second, as long as there are lines."""
    shown: set[str] = set()
    page = _page(command, context, rows, shown, tail)
    ranked = [
        (place // _FIRST.get(title, 1), row) for title, members in _by_topic(rows) for place, row in enumerate(members)
    ]
    for _, row in sorted(ranked, key=lambda one: one[0]):
        larger = _page(command, context, rows, shown | {row.bare}, tail)
        if len(larger) <= SCREEN_LINES:
            shown.add(row.bare)
            page = larger
    return page


def _page(
    command: click.Command, context: click.Context, rows: Sequence[OptionRow], shown: set[str], tail: Sequence[str]
) -> list[str]:
    """``shown`` options with a line each, the others by name."""
    lines = [*_head(command, context, whole=False), ""]
    column = _column(rows)
    for title, members in _by_topic(rows):
        named = ", ".join(row.bare for row in members if row.bare not in shown)
        if not any(row.bare in shown for row in members):
            lines += textwrap.wrap(f"{title}: {named}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
            continue
        lines.append(f"{title}:")
        lines += [_line(row, column) for row in members if row.bare in shown]
        if named:
            lines += textwrap.wrap(
                f"and {named}", WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
            )
    return [*lines, *tail, "", f"In full: {context.command_path} --help-all"]


def _line(row: OptionRow, column: int) -> str:
    start = f"  {row.names:<{column}}  "
    return f"{start}{row.brief(WIDTH - len(start))}".rstrip()


def _full(row: OptionRow, column: int) -> list[str]:
    start = f"  {row.names:<{column}}  "
    indent = " " * (column + 4)
    wrapped = textwrap.wrap(row.text, WIDTH - column - 4, break_on_hyphens=False) or [""]
    if len(row.names) > column:
        return [start.rstrip(), *(indent + line for line in wrapped)]
    return [(start + wrapped[0]).rstrip(), *(indent + line for line in wrapped[1:])]


def _column(rows: Sequence[OptionRow]) -> int:
    return max((len(row.names) for row in rows if len(row.names) <= _WIDEST_NAME), default=0)


def _by_topic(rows: Sequence[OptionRow]) -> Iterator[tuple[str, list[OptionRow]]]:
    for title in (*TOPICS, OTHER):
        names = TOPICS.get(title, ())
        if members := [row for row in rows if row.topic == title]:
            yield title, sorted(members, key=lambda row: names.index(row.bare) if row.bare in names else len(names))


def _head(command: click.Command, context: click.Context, *, whole: bool) -> list[str]:
    """Usage and description; of a page that leaves options out, the description's first paragraph."""
    formatter = click.HelpFormatter(width=WIDTH)
    command.format_usage(context, formatter)
    paragraphs = [part for part in re.split(r"\n\s*\n", (command.help or "").replace("\r", "").strip()) if part]
    lines = formatter.getvalue().rstrip("\n").split("\n")
    for paragraph in paragraphs if whole else paragraphs[:1]:
        lines += ["", *_wrapped(paragraph)]
    return lines


def _wrapped(paragraph: str) -> list[str]:
    text = " ".join(paragraph.removeprefix("\b").split())
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _tail(command: click.Command, most_examples: int | None = None) -> list[str]:
    return ["", *lines] if (lines := example_lines(command.epilog or "", WIDTH, most_examples)) else []
