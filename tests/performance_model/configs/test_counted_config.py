"""The estimated memory of known config.json files against all tensors that transformers' own modules make of them."""

import importlib.util
from pathlib import Path

import pytest

from tests.performance_model.configs.counted_config import counted, estimated
from tests.performance_model.configs.test_model_config import MODELS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # twenty-one models twice: minutes, more beside others


def test_memory_is_that_of_the_tensors_of_transformers(tmp_path: Path) -> None:
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (pip install {name})")
    from tests.performance_model.absent_gpu import build

    try:
        library = build(tmp_path)
    except RuntimeError as error:
        pytest.skip(f"a GPU that is not there cannot be made here: {error}")
    counts = counted(library)
    shares = {
        (name, key): estimated(name, checkpointing=key == "again") / counts[name][key]
        for name in MODELS
        for key in ("kept", "again")
    }
    print("\n".join(f"{share:.3f} {name} {key}" for (name, key), share in shares.items()))
    assert not {one for one, share in shares.items() if share != pytest.approx(1, rel=0.05)}
