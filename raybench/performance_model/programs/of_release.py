"""A program as one of its releases has it: the facts that are of that one, or may be. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from raybench.errors import UsageError
from raybench.performance_model.programs.program import Cut, Fact, Program
from raybench.performance_model.programs.releases import Numbers, Releases, Requirement, Span, numbers_of

_UNKNOWN = Span()


def of_release(program: Program, named: str, release: str) -> Program:
    """The program of that release, asked for by the name ``named``. Raises UsageError for what is no release.

    A fact of releases that may be meant beside others is open, as whose release a library has is not always known.
    """
    numbers = numbers_of(release)
    if numbers is None:
        raise UsageError(
            f"--program {named}: a release is one after ==, as pip has it, such as {named}=={_example(program)}; "
            "without it the program is taken as it is today"
        )
    restarted = numbers_of(program.restarted)
    numbers = (0,) if restarted is not None and numbers >= restarted else numbers
    counts = named not in program.counts_apart
    required = _required(program, numbers) if counts else ()
    own = Span(least=numbers, most=numbers) if counts else _UNKNOWN
    spans = {"": own, program.name: own, **{one.of: one.span for one in required}}
    title = f"{program.title} {release}" if counts else f"{program.title} ({named} {release})"
    return replace(
        program,
        title=title,
        release=release,
        named=named,
        release_note=_note(program, required, counts=counts),
        cuts=tuple(cut for cut in program.cuts if _has_cut(program, cut, spans)),
        cut_experts=_if_held(program.cut_experts, spans),
        facts=tuple(_facts(program.facts, spans)),
        planned=tuple(_facts(program.planned, spans)),
    )


def _note(program: Program, required: Iterable[Requirement], *, counts: bool) -> str:
    """What is known by it of a library, or that nothing is."""
    if not any(fact.releases is not None for fact in program.facts):
        return "taken as it is today: nothing is known of its releases"
    if not counts:
        return f"any release of {program.title}"
    known = {one.of: one.in_words for one in required}
    libraries = dict.fromkeys(fact.releases.of for fact in program.facts if fact.releases is not None)
    others = [one for one in libraries if one not in ("", program.name)]
    return ", ".join(known.get(one, f"any release of {one}") for one in others)


def _example(program: Program) -> str:
    """A release that something is known of."""
    bounds = [fact.releases for fact in program.facts if fact.releases is not None]
    named = (bound.until or bound.since for bound in bounds if bound.of in ("", program.name))
    return next(named, "1.2")


def _required(program: Program, numbers: Numbers) -> tuple[Requirement, ...]:
    """Of each library the requirement of that release: the first that is of releases before a later one."""
    found: dict[str, Requirement] = {}
    for one in program.requirements:
        before = numbers_of(one.until)
        if one.of not in found and (before is None or numbers < before):
            found[one.of] = one
    return tuple(found.values())


def _has_cut(program: Program, cut: Cut, spans: Mapping[str, Span]) -> bool:
    """Whether releases that may be meant cut the model so."""
    late = program.late_cuts.get(cut)
    return late is None or late.hold(spans.get(late.of, _UNKNOWN)) is not False


def _if_held(releases: Releases | None, spans: Mapping[str, Span]) -> Releases | None:
    """None where that release is none of them."""
    if releases is None or releases.hold(spans.get(releases.of, _UNKNOWN)) is False:
        return None
    return releases


def _facts(facts: Iterable[Fact], spans: Mapping[str, Span]) -> Iterator[Fact]:
    for fact in facts:
        if fact.releases is None:
            yield fact
            continue
        holds = fact.releases.hold(spans.get(fact.releases.of, _UNKNOWN))
        if holds:
            yield fact
        elif holds is None and (fact.is_open or isinstance(fact.value, bool)):  # others are open as they are today
            yield replace(fact, is_open=True, is_default=False)
