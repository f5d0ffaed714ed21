"""Which models raybench train builds, of those that an estimate knows."""

from raybench.errors import UsageError
from raybench.services.estimating.counted_model import is_import_path


def is_trained(model: str) -> bool:
    """Whether raybench train builds the model: a preset, or a config.json in the sizes of one."""
    try:
        check_is_trained(model)
    except UsageError:
        return False
    return True


def check_is_trained(model: str) -> None:
    """Raises UsageError for a model that raybench train does not build."""
    from raybench.benchmarks.training.models.config_shape import with_config

    if is_import_path(model):
        raise UsageError(f"--model {model}: raybench trains no model of an import path; raybench estimate counts it")
    with_config({"model": model})
