"""Alarms of the kernel's log from threads that were labelled before raybench read them, those that it then missed.

Of 34 alarms and 11 near misses collected so, it read 21 and 11 right.
"""

from .alarm_cases import AlarmCase, log
from .alarm_log_cases import LOADED, amd, nic

OGKM = "github.com/NVIDIA/open-gpu-kernel-modules/issues"
NO_MEMORY = "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)"
PROFILE = (
    "mlx5_core 0000:03:00.0: 0000:03:00.0:handle_hca_cap:438:(pid 6016): log_max_qp value in current profile is 18, "
    "changing it to HCA capability limit (17)"
)
PARAMETER = (
    "mlx5_core 0000:41:04.2: mlx5_cmd_out_err:782:(pid 8321): CREATE_GENERAL_OBJECT(0xa00) op_mod(0xd) failed, status "
    "bad parameter(0x3), syndrome (0x5fa1c), err(-22)"
)
CHAINS = "mlx5_core 0000:81:00.0 net2: Chains on tunnel devices isn't supported without register metadata support"
BLOCK = "amdgpu 0000:03:00.0: amdgpu: detected ip block number 6 <gfx_v9_4_3>"
ACA = "amdgpu 0000:9e:00.0: {1}[Hardware Error]: "

GPUS: tuple[AlarmCase, ...] = (
    AlarmCase(name="GPU lost, by the driver's status", check="gpu-log", verdict="fail", says="a GPU is lost", near=log(NO_MEMORY),
              fires=log("NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) "
                        "returned from rmStatus @ kernel_ce_gv100.c:106"), source=f"{OGKM}/688"),
    AlarmCase(name="GPU lost, by the number of the status", check="gpu-log", verdict="fail", says="a GPU is lost",
              fires=log("NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!"),
              near=log("NVRM: nvAssertFailedNoLog: Assertion failed: 0 @ kernel_gsp.c:1476"), source=f"{OGKM}/688"),
    AlarmCase(name="call to GSP that timed out", check="gpu-log", verdict="warn", says="GSP refused or missed",
              fires=log("NVRM: _issueRpcAndWait: rpcRecvPoll failed with status 0x00000065 for fn 76!"), near=log(LOADED),
              source=f"{OGKM}/688, with the number of a timeout"),
    AlarmCase(name="GSP firmware does not start", check="gpu-log", verdict="fail", says="could not start a GPU", near=log(LOADED),
              fires=log("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM"), source="github.com/NVIDIA/nvtrust/issues/77"),
    AlarmCase(name="FSP does not answer", check="gpu-log", verdict="fail", says="could not start a GPU",
              fires=log("NVRM: kfspPollForQueueEmpty_IMPL: Timed out waiting for FSP command queue to be empty."),
              near=log("NVRM: kfspDumpDebugState_GH100: NV_PFSP_FALCON_COMMON_SCRATCH_GROUP_2(0) = 0x9f"),
              source="github.com/NVIDIA/nvtrust/issues/77"),
    AlarmCase(name="driver found no GPU", check="gpu-log", verdict="fail", says="took no GPU", near=log(LOADED),
              fires=log("NVRM: No NVIDIA graphics adapter found!", "NVRM: NVIDIA init module failed!"),
              source="github.com/ValveSoftware/SteamOS/issues/209"),
    AlarmCase(name="driver took no GPU, as kernels since 6.6 say it", check="gpu-log", verdict="fail", says="took no GPU",
              fires=log("nvidia 0000:4f:00.0: probe with driver nvidia failed with error -1"),
              near=log("nvidia 0000:4f:00.0: enabling device (0140 -> 0142)"), source="Linux, drivers/base/dd.c"),
    AlarmCase(name="SXid of which the details alone are left", check="gpu-xid", verdict="warn", says="SXid 12028", near=log(LOADED),
              fires=log("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0, 0x00bd5c8a, 0x00000500, 0x00000064}"),
              source="github.com/leptonai/gpud/pull/338"),
    AlarmCase(name="SXid, fatal by its severity alone", check="gpu-xid", verdict="fail", says="SXid 20034", quiet="warn",
              fires=log("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00"),
              near=log("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Severity 0 Engine instance 30 Sub-engine instance 00"),
              source="as the line before it, of other severity"),
)  # fmt: skip

NICS: tuple[AlarmCase, ...] = (
    AlarmCase(name="NIC's capabilities refused", check="rdma-log", verdict="fail", says="could not be started: 0000:01:00.0",
              fires=nic("mlx5_core 0000:01:00.0: handle_hca_cap failed"), near=nic(PROFILE),
              source="github.com/pocopico/rp-ext/issues/129"),
    AlarmCase(name="NIC without its driver", check="rdma-log", verdict="fail", says="could not be started", near=nic(CHAINS),
              fires=nic("mlx5_core: probe of 0000:01:00.0 failed with error -22"), source="github.com/pocopico/rp-ext/issues/129"),
    AlarmCase(name="NIC without its driver, as kernels since 6.6 say it", check="rdma-log", verdict="fail", says="could not be started",
              fires=nic("bnxt_en 0000:41:00.0: probe with driver bnxt_en failed with error -110"),
              near=nic("bnxt_en 0000:41:00.0 eth2: Broadcom BCM57508 NetXtreme-E 10Gb/25Gb/50Gb/100Gb/200Gb Ethernet found at mem"),
              source="Linux, drivers/base/dd.c"),
    AlarmCase(name="NIC's firmware does not come up", check="rdma-log", verdict="fail", says="could not be started",
              fires=nic("mlx5_core 0000:c1:00.0: Firmware over 120000 MS in pre-initializing state, aborting"),
              near=nic("mlx5_core 0000:c1:00.0: firmware version: 28.43.1014"), source="Linux, mlx5/core/main.c"),
    AlarmCase(name="command to a NIC without completion", check="rdma-log", verdict="warn", says="CREATE_DCT(0x710)", near=nic(PARAMETER),
              fires=nic("mlx5_core 0000:61:00.0: wait_func_handle_exec_timeout:1104:(pid 141183): cmd[22]: CREATE_DCT(0x710) No done completion"),
              source="github.com/openucx/ucx/issues/7738"),
    AlarmCase(name="no room for a command to a NIC", check="rdma-log", verdict="warn", says="late with a command", near=nic(PARAMETER),
              fires=nic("mlx5_core 0000:01:00.0: cmd_work_handler:877:(pid 3880418): failed to allocate command entry"),
              source="Linux, a commit on cmd_work_handler"),
    AlarmCase(name="completion queue in error", check="rdma-log", verdict="warn", says="completion queue", near=nic(CHAINS),
              fires=nic("mlx5_core 0000:08:00.0: cq_err_event_notifier:529:(pid 9422): CQ error on CQN 0x406, syndrome 0x1"),
              source="Linux, a commit on the queues of kTLS"),
)  # fmt: skip

AMD: tuple[AlarmCase, ...] = (
    AlarmCase(name="AMD: hardware errors logged by the architecture", check="amd-log", verdict="warn", says="were logged: 0000:9e:00.0",
              fires=amd(f"{ACA}Accelerator Check Architecture events logged", f"{ACA}aca entry[00].STATUS=0x98000800003e0000"),
              near=amd(BLOCK), source="github.com/ROCm/legacy-rocm-build/issues/4021 (MI300X)"),
    AlarmCase(name="AMD: uncorrected, by the status word", check="amd-log", verdict="fail", says="uncorrected hardware error",
              fires=amd(f"{ACA}aca entry[00].STATUS=0xb8000800003e0000"), quiet="warn",
              near=amd(f"{ACA}Accelerator Check Architecture events logged", f"{ACA}aca entry[00].STATUS=0x98000800003e0000"),
              source="likewise, with bit 61 set"),
    AlarmCase(name="AMD: scheduler does not answer", check="amd-log", verdict="warn", says="scheduler does not answer",
              fires=amd("amdgpu 0000:c1:00.0: amdgpu: MES failed to respond to msg=MISC (WAIT_REG_MEM)"),
              near=amd("amdgpu 0000:c1:00.0: amdgpu: detected ip block number 10 <mes_v11_0>"),
              source="github.com/FrameworkComputer/SoftwareFirmwareIssueTracker/issues/227"),
    AlarmCase(name="AMD: scheduler hangs", check="amd-log", verdict="fail", says="scheduler hangs", near=amd(BLOCK),
              fires=amd("amdgpu 0000:c1:00.0: amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues preemption"),
              source="Linux, amdkfd/kfd_device_queue_manager.c"),
)  # fmt: skip

THREAD_CASES = (*GPUS, *NICS, *AMD)
