"""What the ranks' NCCL logs say of the ways between GPUs: peer to peer, and GPUDirect RDMA. Pure."""

from raybench.documents.selftest import Figure
from raybench.services.selftest.check import Outcome, Readings, failed, not_run, passed, unknown
from raybench.services.selftest.versions import numbers_of

# GPUDirect RDMA is for data-centre and professional GPUs: https://docs.nvidia.com/cuda/gpudirect-rdma/
_WITHOUT_GDR = "GeForce"


def nccl_log(readings: Readings) -> Outcome:
    """The logs of the ranks have no critical finding, and all ranks the same NCCL."""
    run = readings.run("collectives")
    diagnosis = run.diagnosis
    if diagnosis is None or diagnosis.empty:
        return unknown("NCCL left no log", "unset NCCL_DEBUG and NCCL_DEBUG_SUBSYS")
    versions = ", ".join(diagnosis.nccl_versions)
    figures: dict[str, Figure] = {"nccl": versions, "network": diagnosis.network, "findings": len(diagnosis.findings)}
    if len(diagnosis.nccl_versions) > 1:
        return failed(f"ranks have NCCL {versions}", "install one NCCL for all ranks", **figures)
    loaded = [one.version for one in readings.torch.nccl_libraries if one.version]
    if any(numbers_of(said) != numbers_of(version) for said in diagnosis.nccl_versions for version in loaded):
        advice = "take the other NCCL out of LD_LIBRARY_PATH and LD_PRELOAD where Ray is started"
        return failed(f"ranks have NCCL {versions}, torch alone loads {', '.join(loaded)}", advice, **figures)
    critical = [one.summary for one in diagnosis.findings if one.severity == "critical"]
    if critical:
        return failed(critical[0], f"raybench diagnose {run.folder}/logs says what to do", **figures)
    warnings = [one.summary for one in diagnosis.findings if one.severity == "warning"]
    remarks = f"; warning: {'; '.join(warnings)}" if warnings else ""
    return passed(f"NCCL {versions or 'of an unknown version'}, {diagnosis.in_brief}{remarks}", **figures)


def peer_to_peer(readings: Readings) -> Outcome:
    """GPUs reach each other directly where NVLink joins them."""
    run = readings.run("collectives")
    rows = run.diagnosis.ranks if run.diagnosis else ()
    ways = sorted({way for row in rows for way in row.transports})
    links = [gpu.nvlinks for gpu in readings.driver.gpus]
    figures: dict[str, Figure] = {
        "transports": ", ".join(ways),
        "nvlinks": min((one for one in links if one is not None), default=None),
    }
    if not ways or any(not row.transports for row in rows):
        return unknown("the logs name no way between the GPUs", "unset NCCL_DEBUG and NCCL_DEBUG_SUBSYS", **figures)
    said = f"NCCL took {', '.join(ways)}"
    if all("P2P" in row.transports for row in rows):
        return passed(said, **figures)
    if not links or any(one is None for one in links):
        return unknown(f"{said}; NVLink is not known", "nvidia-smi nvlink -s", **figures)
    if any(links):
        advice = f"unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; raybench diagnose {run.folder}/logs"
        return failed(f"{said} instead of P2P, although NVLinks are up", advice, **figures)
    return passed(f"{said}: through host memory, as no NVLink is there", **figures)


def gpu_direct(readings: Readings) -> Outcome:
    """Sent through the NIC, with P2P and shared memory switched off, data goes from GPU to NIC directly."""
    if any(_WITHOUT_GDR in gpu.name for gpu in readings.torch.gpus):
        return not_run(f"{_WITHOUT_GDR} GPUs have no GPUDirect RDMA")
    run = readings.run("network")
    diagnosis = run.diagnosis
    if diagnosis is None or diagnosis.gdr is None:
        return unknown("the logs do not tell whether GPUDirect RDMA is used", "unset NCCL_DEBUG and NCCL_DEBUG_SUBSYS")
    figures: dict[str, Figure] = {
        "network": diagnosis.network,
        "gdr": diagnosis.gdr,
        "gdr_channel_share": diagnosis.gdr_channel_share,
    }
    if not diagnosis.gdr:
        advice = f"modprobe nvidia-peermem, or a kernel with DMA-BUF; raybench diagnose {run.folder}/logs says why"
        return failed(f"network {diagnosis.network} without GPUDirect RDMA", advice, **figures)
    return passed(f"network {diagnosis.network} with GPUDirect RDMA", **figures)
