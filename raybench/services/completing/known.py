"""Names that raybench itself knows. Each is asked for alone, and imports nothing but its table."""

from collections.abc import Callable, Iterable, Mapping


def _models() -> Iterable[str]:
    from raybench.performance_model.models.released import released_names

    return (*_presets(), *released_names())


def _presets() -> Iterable[str]:
    from raybench.performance_model.models.presets import PRESETS

    return PRESETS


def _trained_models() -> Iterable[str]:
    return ("mlp", "cnn", *_presets())


def _suites() -> Iterable[str]:
    from raybench.benchmarks.messages.operations import OPERATIONS
    from raybench.benchmarks.registry import SUITES

    return dict.fromkeys((*SUITES, *OPERATIONS))


def _node_types() -> Iterable[str]:
    from raybench.hardware.nodes import NODE_TYPES

    return (one.name for one in NODE_TYPES)


def _gpus() -> Iterable[str]:
    from raybench.hardware.gpus import GPUS

    return (one.name for one in GPUS)


def _rules() -> Iterable[str]:
    from diagnostics.agent.rules import RULES as LIVE
    from diagnostics.rules import RULES
    from raybench.finding_rules.registry import own_rules

    return (*RULES, *(one.id for one in own_rules()), *LIVE)


def _checks() -> Iterable[str]:
    from raybench.preflight.checks import CHECKS

    return dict.fromkeys((*(one.name.partition("-")[0] for one in CHECKS), *(one.name for one in CHECKS)))


def _strategies() -> Iterable[str]:
    from raybench.benchmarks.training.options import STRATEGIES

    return STRATEGIES


def _compared_strategies() -> Iterable[str]:
    from raybench.studies.strategy import STRATEGY_NAMES

    return STRATEGY_NAMES


def _networks() -> Iterable[str]:
    from raybench.studies.network import PRESETS

    return PRESETS


def _programs() -> Iterable[str]:
    from raybench.performance_model.programs.program import every_name
    from raybench.performance_model.programs.table import PROGRAMS

    return every_name(PROGRAMS)


KNOWN: Mapping[str, Callable[[], Iterable[str]]] = {
    "models": _models,
    "trained models": _trained_models,
    "suites": _suites,
    "node types": _node_types,
    "gpus": _gpus,
    "rules": _rules,
    "checks": _checks,
    "strategies": _strategies,
    "compared strategies": _compared_strategies,
    "networks": _networks,
    "programs": _programs,
}
