"""Lines of the kernel's log that are alarms: what they look like, what they mean, and what to do, by check.

The probe brings lines of these drivers alone (``raybench_probe/filters.py``). Texts are those of Linux 5.4 to 6.17 and of the drivers that NVIDIA, AMD and Amazon ship beside it.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAlarm:
    """One kind of line. ``breaks``: no job belongs on the host until somebody looked. ``least``: fewer do not count.

    ``over`` is a line that says that it is over: of the same object where ``expression`` has a group ``object``.
    """

    expression: re.Pattern[str]
    name: str
    advice: str
    breaks: bool = False
    least: int = 1
    over: re.Pattern[str] | None = None


def _alarm(
    expression: str, name: str, advice: str, *, breaks: bool = False, least: int = 1, over: str = ""
) -> KernelAlarm:
    return KernelAlarm(
        expression=re.compile(expression),
        name=name,
        advice=advice,
        breaks=breaks,
        least=least,
        over=re.compile(over) if over else None,
    )


_RESET = "drain the host and reset the GPU (nvidia-smi --gpu-reset); reboot where that fails"
_REBOOT = "drain the host and reboot it; power-cycle it where that is not enough"
_CABLE = "reseat the module at both ends, clean it, or replace it; ethtool -m and mlxlink -m show it"
_NIC = "drain the host; mlxfwreset or a reboot brings the NIC back; update its firmware; have it replaced if it returns"
_MEMORY = "drain the host; rasdaemon (ras-mc-ctl --errors) names the module; replace it"
_DISK = "smartctl -a and nvme error-log on the disk; keep jobs off it until it is replaced"
# As the driver core says it, before 6.6 and since: "nvidia: probe of ADDRESS failed", "nvidia ADDRESS: probe with driver ..."
_PROBE = r"(?: [0-9a-f:.]+)?: probe (?:of|with driver) \S+ failed"
_PROGRAM = "usually the program's fault; if it returns on one GPU only, test that GPU"

GPU_LOG = (
    _alarm(r"RmInitAdapter(?:: Cannot | failed)|rm_init_adapter(?:\(\d+\))? failed|"
           r"NVRM: (?:kfsp|kgsp)\w+: .*(?:[Tt]imed out|[Tt]imeout|[Ff]ailed to boot)", "the driver could not start a GPU",
           f"{_REBOOT}; driver, its firmware and the kernel must fit together (dmesg | grep NVRM)", breaks=True),
    _alarm(r"NVRM: (?!Xid)(?!.*Xid \().*fallen off the bus", "a GPU has fallen off the bus", _REBOOT, breaks=True),
    # status codes of the driver, which it adds to whatever failed (nvstatuscodes.h): lost 0x0f
    _alarm(r"NV_ERR_GPU_IS_LOST|NVRM: .*[Rr]pc\w* failed with status 0x0*[fF]\b", "a GPU is lost", _REBOOT, breaks=True),
    _alarm(r"NVRM: .*[Rr]pc\w* failed with status 0x(?!0*[fF]?\b)", "a GPU's GSP refused or missed a call", _RESET),
    _alarm(r"NVRM: API mismatch", "driver and library are of two versions",
           "reboot, or unload and load the driver, so that the kernel runs the version that is installed", breaks=True),
    _alarm(r"NV_ERR_RESET_REQUIRED|Reset required \[", "the driver wants a reset of the GPU", _RESET, breaks=True),
    _alarm(r"uvm encountered global fatal error|requiring os reboot to recover", "the driver wants a reboot", _REBOOT,
           breaks=True),
    _alarm(r"knvlink\w*: .*(?:[Ff]ailed|FAILED)|NVRM: nvlink.*(?:[Ff]ailed|timed out)", "NVLink could not be brought up",
           "restart nvidia-fabricmanager, reset all GPUs; then the board or the NVSwitch is at fault", breaks=True),
    _alarm(r"PCI I/O region assigned to your NVIDIA device is invalid|BAR\d is 0M @ 0x0", "a GPU has no address space",
           "allow 64-bit addresses above 4G in the BIOS, or pci=realloc on the kernel's command line", breaks=True),
    _alarm(rf"nvidia{_PROBE}|None of the NVIDIA [\w ]+ were initialized|NVRM: NVIDIA init module failed|"
           r"NVRM: No NVIDIA (?:graphics \w+ found|GPU found|devices probed)",
           "the driver took no GPU", "dmesg | grep NVRM says why: another driver, a module of another kernel", breaks=True),
    _alarm(r"NVRM: .*GPU .* is not supported by|installed in this system is\s+not supported", "the driver knows no such GPU",
           "install a driver that supports it; Blackwell wants the open kernel modules", breaks=True),
    _alarm(r"nvidia-nvswitch\d*: (?!SXid).*(?:[Ff]ailed|fatal error|timed out)", "an NVSwitch failed",
           "power-cycle the host; then the board is at fault", breaks=True),
    _alarm(r"nvidia-peermem .*ERROR", "nvidia-peermem lost track of a buffer",
           "restart the programs that use GPUDirect RDMA; reload nvidia-peermem"),
)  # fmt: skip

NIC_LOG = (
    _alarm(r"Port module event\[error\]: module (?P<object>\d+), (?P<what>.*)", "a cable or module is in error", _CABLE,
           breaks=True, over=r"Port module event: module (?P<object>\d+), Cable plugged"),
    _alarm(r"Port module event: module (?P<object>\d+), Cable unplugged", "a cable was pulled out", _CABLE,
           over=r"Port module event: module (?P<object>\d+), Cable plugged"),
    _alarm(r"health compromised|print_health_info.* synd (?!0x0\b)(?P<what>.*)|Fatal error \d+ detected",
           "a NIC's health is compromised", _NIC, breaks=True),
    _alarm(r"[Hh]ealth recovery (?:flow )?(?:aborted|failed)|recovery (?:flow )?aborted|fw_fatal|firmware (?:fatal|internal) error|"
           r"assert_var\[0\]|Driver is in error state", "a NIC's firmware failed", _NIC, breaks=True),
    _alarm(r"mlx5\w* .*(?P<what>\b[A-Z_]+\(0x[0-9a-f]+\)) timeout\. Will cause a leak", "a command to a NIC timed out", _NIC,
           breaks=True),
    _alarm(r"mlx5_core \S+ (?:mlx5_load_one|probe_one|init_one|mlx5_init_one|handle_hca_cap)\S* .*(?:failed|error)|"
           rf"mlx5_core .*Firmware over \d+ MS in \S+ state, aborting|(?:mlx[45]_core|bnxt_en|ice|i40e|irdma|efa|ena){_PROBE}",
           "a NIC could not be started", _NIC, breaks=True),
    _alarm(r"mlx5_core .*(?:(?P<what>\b[A-Z_]+\(0x[0-9a-f]+\)) No done completion|failed to allocate command entry)",
           "a NIC's firmware is late with a command", _NIC),
    _alarm(r"mlx5_core .*\bCQ error on CQN|mlx5\w* .*mlx5e_cq_error_event", "a NIC's completion queue failed",
           "what used it has stopped: restart it; update driver and firmware if it returns"),
    _alarm(r"(?:mlx5|bnxt|ice|ena|irdma).*(?:TX timeout|[Tt]x hang|TX hasn't completed)|NETDEV WATCHDOG: .*timed out",
           "a NIC's transmit queue stood still", "look for link errors and pause frames; update driver and firmware"),
    _alarm(r"mlx5_core .*High temperature", "a NIC is hot", "check airflow; mget_temp -d DEVICE gives the temperature"),
    _alarm(r"Detected insufficient power on the PCIe slot \((?P<what>\d+W)\)", "a slot gives a NIC too little power",
           "power limits of the slot in the BIOS; optics of high power may stay dark"),
    _alarm(r"(?:bnxt_en|bnxt_re) .*(?:[Ff]irmware (?:fatal|not responding|stall)|FW fatal|hwrm .*(?:timeout|timed out)|stall detected)",
           "a NIC's firmware failed", _NIC, breaks=True),
    _alarm(r"(?:ice|irdma|i40e) .*(?:PF reset|GLOBR|EMPR|Malicious Driver Detection|critical error|CQP .*failed)",
           "a NIC was reset", "update driver and firmware; have the NIC replaced if it returns"),
    _alarm(r"\befa .*(?:timed out|timeout|unresponsive|[Ff]ailed|reset)", "an EFA device failed",
           "stop and start the instance, which moves it to another machine; update the EFA driver", breaks=True),
    _alarm(r"\bena .*(?:[Kk]eep ?alive watchdog timeout|[Rr]eset the device|admin.*timeout|[Tt]rigger(?:ing)? (?:a )?reset)",
           "an ENA device was reset", "update the ENA driver; stop and start the instance if it returns"),
)  # fmt: skip

_AMD_RESET = "drain the host; amd-smi reset --gpureset -g GPU, or a reboot where that fails; replace what returns"
AMD_LOG = (
    # AMD's status word of a bank: bit 61 of it is uncorrected
    _alarm(r"amdgpu .*aca entry\[\d+\]\.STATUS=0x[2367abefABEF][0-9a-fA-F]{15}\b", "uncorrected hardware error of a GPU",
           _AMD_RESET, breaks=True),
    _alarm(r"amdgpu .*Accelerator Check Architecture events logged", "hardware errors of a GPU were logged",
           "amd-smi metric --ecc and amd-smi ras tell which block; have the GPU replaced if they go on"),
    _alarm(r"uncorrectable hardware error\(|(?<![\d])[1-9]\d* (?:new |total )?uncorrectable hardware errors|"
           r"ERREVENT_ATHUB_INTERRUPT|poison (?:is )?consum|RAS poison", "uncorrectable hardware error of a GPU", _AMD_RESET,
           breaks=True),
    _alarm(r"GPU reset\(\d+\) failed|GPU reset end with ret = -|[Rr]ing \S+ reset failed|device lost from bus|"
           r"GPU (?:recovery|reset).*failed|Failed to reset the GPU", "a GPU could not be reset", _REBOOT, breaks=True),
    _alarm(rf"Fatal error during GPU init|amdgpu{_PROBE}|hw_init of IP block .* failed|"
           r"amdgpu.*(?:psp|PSP).*(?:load|firmware).*failed|invalid ip discovery", "the driver could not start a GPU", _REBOOT,
           breaks=True),
    _alarm(r"(?i)amdgpu.*\b(?:xgmi|wafl)\b.*(?:error|err\b|fail|\bdown\b)", "an XGMI link failed",
           "drain the host; amd-smi xgmi shows the link; a reboot trains it again; then the board or the GPU is at fault",
           breaks=True),
    _alarm(r"(?i)bad page.*(?:threshold|exceed)|RAS records.*(?:exceed|threshold)|unable to retire", "a GPU has too many bad pages",
           "drain the host and have the GPU replaced", breaks=True),
    _alarm(r"over temperature range|SW CTF|HW CTF|thermal (?:shutdown|trip)", "a GPU was too hot",
           "check airflow and fans; it shuts itself off", breaks=True),
    _alarm(r"SMU.*(?:not done|no response|hang|is in hanged state)|Failed to (?:export SMU|retrieve).*SMU|"
           r"amdgpu.*Failed to send message 0x", "a GPU's management firmware does not answer", _AMD_RESET, breaks=True),
    _alarm(r"[Rr]ing \S+ timeout(?!, but soft recovered)", "work on a GPU timed out", _PROGRAM),
    _alarm(r"MES (?:\S+ )?might be in unrecoverable state|[Tt]he cp might be in an unrecoverable state|\bHWS hang",
           "a GPU's scheduler hangs", _AMD_RESET, breaks=True),
    _alarm(r"MES (?:\S+ )?failed to respond to msg|qcm fence wait loop timeout", "a GPU's scheduler does not answer", _AMD_RESET),
    _alarm(r"GPU reset begin", "a GPU was reset", "whatever ran on it was lost; look at what the log says before it"),
    _alarm(r"\[(?:gfxhub|mmhub)\d*\] (?:retry |no-retry )?page fault|VM_L2_PROTECTION_FAULT|HW [Ee]xception by GPU",
           "a program accessed a GPU beyond its memory", _PROGRAM),
    _alarm(r"(?<![\d])[1-9]\d* (?:new |total )?correctable hardware errors", "corrected hardware errors of a GPU",
           "amd-smi metric --ecc counts them; have the GPU replaced if they go on"),
)  # fmt: skip

HOST_LOG = (
    _alarm(r"Hardware Error.*(?:[Uu]ncorrected|severity: (?:fatal|recoverable))|Machine [Cc]heck Exception", "machine check",
           "drain the host; rasdaemon or mcelog names the part", breaks=True),
    _alarm(r"Hardware Error.*Machine [Cc]heck", "machine check logged", "rasdaemon or mcelog names the part"),
    _alarm(r"Hardware Error.*(?:[Cc]orrected|severity: corrected)", "corrected hardware error", "rasdaemon names the part"),
    _alarm(r"EDAC .*\bUE\b|Memory failure: 0x\w+: (?:recovery action|Sending SIGBUS|unhandlable|Killing)",
           "uncorrected memory error", _MEMORY, breaks=True),
    _alarm(r"EDAC .*[1-9]\d* CE\b", "corrected memory error", _MEMORY),
    # "traps: python[327] general protection fault ip:7ff4 sp:7ffd error:0 in lib.so" is a program's, and no fault of the host
    _alarm(r"(?:hard LOCKUP|Kernel panic|Oops: |BUG: unable to handle|kernel BUG at|"
           r"(?:general protection fault|divide error|invalid opcode|stack segment)[^\[]{0,200}: [0-9a-f]{4} \[#\d+\])",
           "the kernel itself failed", "drain the host and reboot it; keep the log for whoever made the module", breaks=True),
    _alarm(r"soft lockup - CPU#(?P<object>\d+) stuck|self-detected stall|rcu.*detected stalls", "a CPU stood still",
           "look at what ran there; firmware that holds the CPU, a driver, or a host that is overcommitted"),
    _alarm(r"(?:[Cc]ore|[Pp]ackage) temperature(?: is)? above threshold", "a CPU is slowed down for heat",
           "check fans, airflow and the CPU's cooler"),
    _alarm(r"(?P<object>nvme\d+): .*(?:Disabling device after reset failure|Removing after probe failure|controller is down)|"
           r"Disk failure on (?P<what>\S+)", "a disk has failed", _DISK, breaks=True),
    _alarm(r"Remounting filesystem read-only|EXT4-fs error|XFS \(\S+\): .*(?:[Cc]orruption|[Ss]hutdown)|BTRFS.* error",
           "a file system is damaged", "stop what writes there, check the disk, then fsck", breaks=True),
    _alarm(r"nvme nvme\d+: I/O .*timeout|no available path - failing I/O", "a disk does not answer", _DISK),
    _alarm(r"I/O error", "I/O error", _DISK),
    _alarm(r"nfs: server (?P<object>\S+) not responding", "a file server does not answer",
           "look at the server and the way to it: jobs that read there stand still", over=r"nfs: server (?P<object>\S+) OK"),
    _alarm(r"LustreError: .*(?:evicted|timed out|not available)|LNetError", "a file server does not answer",
           "lfs check servers, lctl ping; jobs that read there stand still"),
    _alarm(r"blocked for more than \d+ seconds", "hung task", "read /proc/PID/stack of it: storage or a driver below"),
    _alarm(r"Out of memory: Killed|oom-kill:|invoked oom-killer|Memory cgroup out of memory", "out of memory",
           "the killed program's limit or the host's memory was too small"),
    _alarm(r"DPC: containment event|AER: .*(?:[Uu]ncorrect|Fatal)|PCIe Bus Error: severity=Uncorrect", "uncorrected PCIe error",
           "drain the host; reseat what stands at that address, or replace it", breaks=True),
    _alarm(r"PCIe Bus Error: severity=Correct|AER: (?:Multiple )?Correct", "corrected PCIe errors",
           "reseat what stands at that address; check the slot, the riser and retimers", least=10),
    _alarm(r"pciehp: Slot\([^)]*\): (?:Link Down|\w+ not present)", "a PCIe device has gone",
           "lspci shows what is missing; reseat it, look at its power", breaks=True),
    _alarm(r"IO_PAGE_FAULT|DMAR: \[DMA (?:Read|Write)", "a device reached beyond its memory",
           "the driver of the device that is named; iommu=pt where nothing needs translation"),
    _alarm(r"file-max limit \d+ reached", "no more files can be opened", "raise fs.file-max, find who opens so many"),
)  # fmt: skip
