"""The hardware table: the right figures by exact device name, and nothing for a name that it does not have."""

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import GPUS, PEAK_DTYPES, USABLE_SHARE, find_gpu, gpu_for, unknown_reason
from raybench.hardware.tables import read_table

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
    ("NVIDIA H20-3e", 148, 296),
    ("NVIDIA H200 NVL", 835.5, 1670.5),
    ("NVIDIA H800 PCIe", 756.5, 1513),
    ("NVIDIA GH200 120GB", 989.4, 1978.9),
    ("NVIDIA A800-SXM4-40GB", 312, None),
    ("NVIDIA A800 80GB PCIe", 312, None),
    ("NVIDIA L20", 119.5, 239),
    ("NVIDIA RTX 6000 Ada Generation", 364.2, 728.5),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8, 1007.6),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 480, 960),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 438.9, 877.8),
    ("NVIDIA RTX 5000 Ada Generation", 261.1, 522.2),
    ("NVIDIA RTX A5000", 111.1, None),
    ("NVIDIA RTX A4000", 76.7, None),
    ("Quadro RTX 8000", 130.5, None),
    ("NVIDIA TITAN RTX", 130.5, None),
    ("NVIDIA GeForce RTX 2080 Ti", 53.8, None),
    ("NVIDIA GeForce RTX 3090 Ti", 80, None),
    ("NVIDIA GeForce RTX 4090 D", 147.1, 294.2),
    ("NVIDIA GeForce RTX 5080", 112.6, 225.1),
    ("Tesla P100-PCIE-16GB", 9.3, None),
    ("AMD Instinct MI250", 181.05, None),
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
        "NVIDIA H100",  # what the driver calls the SXM with 64 or 94 GB of HBM2e; people mean any of 989, 756 and 835
        "NVIDIA H100 SXM5 64GB",
        "NVIDIA H100 80GB HBM2e",
        "NVIDIA H20 NVL16",
        "NVIDIA H800 NVL",
        "NVIDIA A800 40GB Active",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA A100-PG509-200",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        "NVIDIA H100 80GB HBM3 MIG 7g.80gb",  # the whole card in one slice has not all its SMs
        "NVIDIA L20X",
        "NVIDIA B200 MIG 1g.23gb",
        "NVIDIA GB10",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA Graphics Device",
        "Tesla V100-SXM3-32GB-H",  # 450 W, 131 instead of 125
        "Tesla V100-SXM2-32GB-LS",
        "Tesla V100-DGXS-32GB",
        "AMD Instinct MI250X / MI250",  # ROCm's name for either
        "AMD Instinct MI300X HF",
        "AMD Instinct MI308X",
        "AMD Radeon Graphics",
        "NVIDIA H100-80C",
        "NVIDIA A100",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "GRID A100-10C",
        "NVIDIA A1000",
        "NVIDIA A10M",
        "NVIDIA H100 80GB HBM3e Special",
        "NVIDIA L400",
        "Tesla P40",
        "NVIDIA GeForce RTX 3080",  # of 10 or 12 GB, with other units
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "NVIDIA RTX PRO 6000 Blackwell",
        "Quadro RTX 6000 with Max-Q Design",
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


# What architecture papers say of a chip: row, type, units (SMs or CUs), operations a clock of one, MHz. A multiply-add
# is two operations.
ARITHMETIC = (
    ("V100 SXM2 32GB", "fp16", 80, 1024, 1530),
    ("P100 PCIe 16GB", "fp16", 56, 128, 1303),
    ("P100 SXM2 16GB", "fp16", 56, 128, 1480),
    ("T4", "fp16", 40, 1024, 1590),
    ("RTX 2070", "fp16", 36, 512, 1620),
    ("RTX 2070 SUPER", "fp16", 40, 512, 1770),
    ("RTX 2080", "fp16", 46, 512, 1710),
    ("RTX 2080 SUPER", "fp16", 48, 512, 1815),
    ("RTX 2080 Ti", "fp16", 68, 512, 1545),
    ("TITAN RTX", "fp16", 72, 1024, 1770),
    ("Quadro RTX 5000", "fp16", 48, 1024, 1815),
    ("Quadro RTX 8000", "fp16", 72, 1024, 1770),
    ("RTX A4000", "bf16", 48, 1024, 1560),
    ("RTX A4500", "bf16", 56, 1024, 1650),
    ("RTX A5000", "bf16", 64, 1024, 1695),
    ("RTX A5500", "bf16", 80, 1024, 1665),
    ("A10", "bf16", 72, 1024, 1695),
    ("A10G", "bf16", 80, 512, 1710),
    ("A30", "bf16", 56, 2048, 1440),
    ("A40", "bf16", 84, 1024, 1740),
    ("RTX A6000", "bf16", 84, 1024, 1800),
    ("A100 SXM 80GB", "bf16", 108, 2048, 1410),
    ("A100 SXM 80GB", "fp64", 108, 128, 1410),
    ("L4", "bf16", 58, 1024, 2040),
    ("L40", "bf16", 142, 512, 2490),
    ("L40S", "bf16", 142, 1024, 2490),
    ("RTX 6000 Ada", "bf16", 142, 1024, 2505),
    ("RTX 3090", "bf16", 82, 512, 1695),
    ("RTX 3060 Ti", "bf16", 38, 512, 1665),
    ("RTX 3070", "bf16", 46, 512, 1725),
    ("RTX 3070 Ti", "bf16", 48, 512, 1770),
    ("RTX 3080 Ti", "bf16", 80, 512, 1665),
    ("RTX 3090 Ti", "bf16", 84, 512, 1860),
    ("RTX 4000 Ada", "bf16", 48, 1024, 2175),
    ("RTX 4500 Ada", "bf16", 60, 1024, 2580),
    ("RTX 5000 Ada", "bf16", 100, 1024, 2550),
    ("RTX 4070", "bf16", 46, 512, 2475),
    ("RTX 4070 SUPER", "bf16", 56, 512, 2475),
    ("RTX 4070 Ti", "bf16", 60, 512, 2610),
    ("RTX 4070 Ti SUPER", "bf16", 66, 512, 2610),
    ("RTX 4080", "bf16", 76, 512, 2505),
    ("RTX 4080 SUPER", "bf16", 80, 512, 2550),
    ("RTX 4090", "bf16", 128, 512, 2520),
    ("RTX 4090 D", "bf16", 114, 512, 2520),
    ("RTX 5070", "bf16", 48, 512, 2512),
    ("RTX 5070 Ti", "bf16", 70, 512, 2452),
    ("RTX 5080", "bf16", 84, 512, 2617),
    ("RTX 5090", "bf16", 170, 512, 2407),
    ("RTX PRO 6000 Blackwell", "bf16", 188, 1024, 2617),
    ("RTX PRO 6000 Blackwell Server", "bf16", 188, 1024, 2493),
    ("RTX PRO 6000 Blackwell Server", "fp32", 188, 256, 2493),
    ("RTX PRO 6000 Blackwell Max-Q", "bf16", 188, 1024, 2280),
    ("H100 SXM", "bf16", 132, 4096, 1830),
    ("H100 SXM", "fp64", 132, 256, 1980),
    ("H100 PCIe", "bf16", 114, 4096, 1620),
    ("MI100", "fp16", 120, 1024, 1502),
    ("MI100", "fp32", 120, 256, 1502),
    ("MI210", "bf16", 104, 1024, 1700),
    ("MI210", "fp64", 104, 256, 1700),
    ("MI250X (one of its two GPUs)", "bf16", 110, 1024, 1700),
    ("MI250 (one of its two GPUs)", "bf16", 104, 1024, 1700),
    ("MI300X", "bf16", 304, 2048, 2100),
    ("MI300X", "fp64", 304, 256, 2100),
    ("MI300A", "bf16", 228, 2048, 2100),
    ("MI350X", "bf16", 256, 4096, 2200),
    ("MI355X", "bf16", 256, 4096, 2400),
    ("MI355X", "fp64", 256, 128, 2400),
)


@pytest.mark.parametrize(("name", "dtype", "units", "operations", "mhz"), ARITHMETIC)
def test_peaks_are_units_times_operations_times_clock(
    name: str, dtype: str, units: int, operations: int, mhz: int
) -> None:
    assert gpu_for(name).peak_tflops(dtype) == pytest.approx(units * operations * mhz / 1e6, rel=0.012)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-40GB", "board_gb_per_s"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "memory_gb_per_s"),
        ("NVIDIA A800-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "nvlink_gb_per_s"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "tflops"),
        ("NVIDIA H100 NVL", "NVIDIA H100 PCIe", "tflops"),
        ("NVIDIA H800", "NVIDIA H100 80GB HBM3", "nvlink_gb_per_s"),
        ("NVIDIA H200 NVL", "NVIDIA H200", "tflops"),
        ("NVIDIA H20-3e", "NVIDIA H20", "memory_bytes"),
        ("NVIDIA H20", "NVIDIA H200", "tflops"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 144G HBM3e", "memory_gb"),
        ("NVIDIA L40", "NVIDIA L40S", "tflops"),
        ("NVIDIA L4", "NVIDIA L40", "tflops"),
        ("NVIDIA A10", "NVIDIA A10G", "tflops"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti", "tflops"),
        ("Quadro RTX 6000", "Quadro RTX 8000", "memory_gb"),
        ("Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation", "tflops"),
        ("NVIDIA RTX A4000", "NVIDIA RTX 4000 Ada Generation", "tflops"),
        ("Tesla P100-PCIE-16GB", "Tesla P100-SXM2-16GB", "board_gb_per_s"),
        ("NVIDIA B200", "NVIDIA GB200", "tflops"),
        ("NVIDIA B300 SXM6 AC", "NVIDIA GB300", "tflops"),
        ("Tesla V100-PCIE-16GB", "Tesla V100-SXM2-16GB", "tflops"),
    ],
)
def test_names_that_look_alike_are_told_apart(one: str, other: str, differ: str) -> None:
    first, second = find_gpu(one), find_gpu(other)
    assert first is not None
    assert second is not None
    assert getattr(first, differ) != getattr(second, differ)


def test_dense_fp4_of_blackwell_ultra_is_as_printed_and_not_half_of_sparse() -> None:
    assert gpu_for("B300").peak_tflops("fp4") == 108_000 / 8
    assert gpu_for("GB300").peak_tflops("fp4") == 1_080_000 / 72
    assert gpu_for("B200").peak_tflops("fp4") == 144_000 / 2 / 8


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
        assert gpu.compared
        assert set(gpu.compared) <= set("ACDGLMNTV")
        assert 0.9 < gpu.memory_bytes / 2**30 / gpu.memory_gb <= 1.0, gpu.name
        assert gpu.memory_gb_per_s >= 300
        if "fp8" in gpu.tflops and "bf16" in gpu.tflops:
            assert gpu.tflops["fp8"] / gpu.tflops["bf16"] == pytest.approx(2, rel=0.013), gpu.name


def test_what_the_driver_keeps_is_not_for_a_process() -> None:
    """H100: nvidia-smi says 81559 MiB, PyTorch that the device has 79.11 GiB (vllm-project/vllm#27508)."""
    assert gpu_for("h100").memory_bytes / 2**30 == pytest.approx(79.11, abs=0.005)
    assert gpu_for("B300").memory_bytes == int(USABLE_SHARE * 275_040 * 2**20)  # no such message was seen of one
    rows = read_table("raybench.hardware", "gpus.csv")
    both = [row for row in rows if row["usable_mib"] and row["reported_mib"]]
    assert len(both) > 20
    assert all(0.97 < float(row["usable_mib"]) / float(row["reported_mib"]) <= 1 for row in both)
    assert all(bool(row["usable_mib"]) == bool(row["usable_seen"]) for row in rows)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h100", "H100 SXM"),
        ("A100 PCIe", "A100 PCIe 80GB"),
        ("nvidia l40s", "L40S"),
        ("B200", "B200"),
        ("4090", "RTX 4090"),
        ("RTX4090", "RTX 4090"),
        ("a6000", "RTX A6000"),
        ("6000-ada", "RTX 6000 Ada"),
        ("rtx 8000", "Quadro RTX 8000"),
        ("titan_rtx", "TITAN RTX"),
        ("2080ti", "RTX 2080 Ti"),
        ("RTX3090Ti", "RTX 3090 Ti"),
        ("v100-16gb", "V100 SXM2 16GB"),
        ("P100", "P100 PCIe 16GB"),
        ("RTX PRO 6000", "RTX PRO 6000 Blackwell"),
    ],
)
def test_short_names_are_for_people(text: str, name: str) -> None:
    assert gpu_for(text).name == name


def test_an_unknown_gpu_on_the_command_line_lists_the_table() -> None:
    with pytest.raises(
        UsageError, match=r"no GPU in the hardware table named 'H1000'; did you mean 'h100'.* There are: P100"
    ):
        gpu_for("H1000")
    with pytest.raises(UsageError, match="no GPU in the hardware table named 'rtx'"):
        gpu_for("rtx")  # of several
    with pytest.raises(UsageError, match="no GPU in the hardware table named 'rtx 6000'"):
        gpu_for("rtx 6000")  # Quadro, Ada or Blackwell


@pytest.mark.parametrize(
    ("device", "capability", "is_hopper"),
    [
        ("NVIDIA H20-3e", 9.0, True),
        ("NVIDIA GH200 480GB", 9.0, True),
        ("NVIDIA L40S", 8.9, False),
        ("NVIDIA B300 SXM6 AC", 10.3, False),
        ("AMD Instinct MI300X", None, False),
    ],
)
def test_a_device_of_nvidia_has_a_compute_capability(device: str, capability: float | None, is_hopper: bool) -> None:
    gpu = find_gpu(device)
    assert gpu is not None
    assert (gpu.compute_capability, gpu.is_hopper) == (capability, is_hopper)


def test_units_for_a_type_come_with_the_capability_that_has_them() -> None:
    """bf16 from Ampere on, fp8 from Ada on, fp4 from Blackwell on."""
    for gpu in GPUS:
        if gpu.compute_capability is not None:
            for dtype, since in (("bf16", 8.0), ("fp8", 8.9), ("fp4", 10.0)):
                assert (gpu.peak_tflops(dtype) is not None) is (gpu.compute_capability >= since), gpu.name
        else:
            assert gpu.name.startswith("MI")
