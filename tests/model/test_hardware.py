"""The hardware table: the right figures by exact device name, and nothing for a name that it does not have."""

import pytest

from raybench.errors import UsageError
from raybench.model.hardware import GPUS, PEAK_DTYPES, find_gpu, gpu_for, unknown_reason

# What the vendors' data sheets say, dense: device name as the driver prints it, bf16 (fp16 before Ampere), fp8.
DATA_SHEETS = (
    ("Tesla V100-SXM2-16GB", 125, None),
    ("Tesla V100-SXM2-32GB", 125, None),
    ("Tesla V100-PCIE-32GB", 112, None),
    ("Tesla T4", 65, None),
    ("NVIDIA A10", 125, None),
    ("NVIDIA A10G", 70, None),
    ("NVIDIA A30", 165, None),
    ("NVIDIA A40", 149.7, None),
    ("NVIDIA A100-SXM4-40GB", 312, None),
    ("A100-SXM4-40GB", 312, None),
    ("NVIDIA A100-SXM4-80GB", 312, None),
    ("NVIDIA A100-PCIE-40GB", 312, None),
    ("NVIDIA A100 80GB PCIe", 312, None),
    ("NVIDIA L4", 121, 242.5),
    ("NVIDIA L40", 181.05, 362),
    ("NVIDIA L40S", 362.05, 733),
    ("NVIDIA H100 PCIe", 756.5, 1513),
    ("NVIDIA H100 NVL", 835.5, 1670.5),
    ("NVIDIA H100 80GB HBM3", 989.4, 1978.9),
    ("NVIDIA H200", 989.4, 1978.9),
    ("NVIDIA H20", 148, 296),
    ("NVIDIA GH200 480GB", 989.4, 1978.9),
    ("NVIDIA B200", 2250, 4500),
    ("NVIDIA GB200", 2500, 5000),
    ("NVIDIA B300 SXM6 AC", 2250, 4500),
    ("NVIDIA GB300", 2500, 5000),
    ("NVIDIA RTX 6000 Ada Generation", 364.2, 728.5),
    ("AMD Instinct MI300X", 1307.4, 2614.9),
    ("AMD Instinct MI325X", 1307.4, 2614.9),
)


@pytest.mark.parametrize(("device", "half", "eighth"), DATA_SHEETS, ids=[row[0] for row in DATA_SHEETS])
def test_the_peak_of_a_device_is_that_of_its_data_sheet(device: str, half: float, eighth: float | None) -> None:
    gpu = find_gpu(device)
    assert gpu is not None
    assert gpu.peak_tflops("torch.float16") == half
    assert gpu.peak_tflops("float8_e4m3fn") == eighth


@pytest.mark.parametrize(
    "device",
    [
        "NVIDIA H100",  # SXM, PCIe or NVL: 989, 756 or 835
        "NVIDIA A100",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "GRID A100-10C",
        "NVIDIA A1000",
        "NVIDIA A10M",
        "NVIDIA H100 80GB HBM3e Special",
        "NVIDIA L400",
        "Tesla P100-PCIE-16GB",
        "AMD Instinct MI400",
        "",
    ],
)
def test_a_name_that_the_table_does_not_have_is_unknown(device: str) -> None:
    assert find_gpu(device) is None
    assert "measure a GEMM and a copy" in unknown_reason(device)


def test_a_slice_of_a_gpu_says_so() -> None:
    assert "slice of a GPU" in unknown_reason("NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    assert "slice" not in unknown_reason("NVIDIA MIGHTY 1")


def test_types_that_a_gpu_has_no_units_for_have_no_peak() -> None:
    assert gpu_for("V100").peak_tflops("bf16") is None
    assert gpu_for("A100").peak_tflops("fp8") is None
    assert gpu_for("H100").peak_tflops("fp4") is None
    assert gpu_for("MI355X").peak_tflops("tf32") is None


def test_the_table_is_plausible_in_itself() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS)
    names = [device for gpu in GPUS for device in gpu.devices]
    assert len(set(names)) == len(names)
    for gpu in GPUS:
        assert set(gpu.tflops) <= set(PEAK_DTYPES)
        assert gpu.source
        assert 0.9 < gpu.memory_bytes / 2**30 / gpu.memory_gb <= 1.0, gpu.name
        assert gpu.memory_gb_per_s >= 300
        if "fp8" in gpu.tflops and "bf16" in gpu.tflops:  # 1.94 for the B100's rounded figures
            assert gpu.tflops["fp8"] / gpu.tflops["bf16"] == pytest.approx(2, rel=0.04), gpu.name


@pytest.mark.parametrize(
    ("text", "name"), [("h100", "H100 SXM"), ("A100 PCIe", "A100 PCIe 80GB"), ("nvidia l40s", "L40S"), ("B200", "B200")]
)
def test_short_names_are_for_people(text: str, name: str) -> None:
    assert gpu_for(text).name == name


def test_an_unknown_gpu_on_the_command_line_lists_the_table() -> None:
    with pytest.raises(
        UsageError, match=r"no GPU in the hardware table named 'H1000'; did you mean 'h100'.* There are: V100"
    ):
        gpu_for("H1000")
