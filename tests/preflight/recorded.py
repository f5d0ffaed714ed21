"""Output of real tools, cut down to what is read. The systems are named; addresses and GUIDs are made up."""

from pathlib import Path

# nvidia-smi -q, driver 535, DGX A100 (headings and layout as printed)
SMI_A100 = """
==============NVSMI LOG==============

Timestamp                                 : Mon Sep 11 10:52:14 2023
Driver Version                            : 535.161.08
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:10:1C.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Product Brand                         : NVIDIA
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    VBIOS Version                         : 92.00.81.00.06
    PCI
        Bus                               : 0x10
        Bus Id                            : 00000000:10:1C.0
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 4
            Link Width
                Max                       : 16x
                Current                   : 16x
    Performance State                     : P0
    Clocks Throttle Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
    FB Memory Usage
        Total                             : 81920 MiB
        Reserved                          : 869 MiB
        Used                              : 4 MiB
        Free                              : 81046 MiB
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 3
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 1
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            High                          : 1 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 34 C
        GPU Shutdown Temp                 : 92 C
        GPU Slowdown Temp                 : 89 C
    Processes                             : None
GPU 00000000:20:1C.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Clocks Throttle Reasons
        Idle                              : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    FB Memory Usage
        Used                              : 4 MiB
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 31 C
    Processes                             : None
"""

# Driver 570, H200: newer headings (Clocks Event Reasons, ECC by cause, Fabric), a process on the GPU
SMI_H200 = """
==============NVSMI LOG==============
Driver Version                            : 570.133.20
CUDA Version                              : 12.8

Attached GPUs                             : 1
GPU 00000000:3D:00.0
    Product Name                          : NVIDIA H200
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 1523 us
        SW Thermal Slowdown               : 0 us
    FB Memory Usage
        Total                             : 143771 MiB
        Used                              : 17012 MiB
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 52 C
        GPU T.Limit Temp                  : 35 C
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 46121
            Type                          : C
            Name                          : /usr/bin/python3
            Used GPU Memory               : 17002 MiB
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
        Health
            Bandwidth                     : N/A
"""

SMI_BROKEN = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."

# nvidia-smi nvlink -s, H100: one link of the second GPU is down
NVLINK_H100 = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n{first}GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000002)\n{second}"

# nvidia-smi topo -m, two GPUs of a DGX H100
TOPO_H100 = (
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\tPIX\tNODE\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNODE\tPIX\t0-47,96-143\t0\t\tN/A\n"
    "NIC0\tPIX\tNODE\t X \tNODE\t\t\t\t\n"
    "NIC1\tNODE\tPIX\tNODE\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
)
# Azure ND H100: the hypervisor hides the switches
TOPO_AZURE = (
    "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\tSYS\t0-103\t0\n"
    "GPU1\tNV18\t X \tNODE\t104-207\t1\n"
    "mlx5_0\tSYS\tNODE\t X \n"
)

IBSTAT_CONNECTX7 = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.40.1000
\tHardware version: 0
\tNode GUID: 0xc470bd0300000001
\tSystem image GUID: 0xc470bd0300000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 48
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0xc470bd0300000001
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.40.1000
\tHardware version: 0
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tBase lid: {lid}
\t\tLMC: 0
\t\tSM lid: {sm}
\t\tLink layer: InfiniBand
"""

# ConnectX-6 Dx, RoCE
IBSTAT_ROCE = """CA 'mlx5_2'
\tCA type: MT4125
\tNumber of ports: 1
\tFirmware version: 22.35.2000
\tHardware version: 0
\tNode GUID: 0xb83fd20300000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 100
\t\tBase lid: 0
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0x00010000
\t\tLink layer: Ethernet
"""

# BlueField-3 in a bond
IBSTAT_BLUEFIELD = (
    IBSTAT_ROCE.replace("mlx5_2", "mlx5_bond_0").replace("MT4125", "MT41692").replace("Rate: 100", "Rate: 400")
)

# Soft-RoCE: empty type and firmware
IBSTAT_RXE = """CA 'rxe0'
\tCA type:
\tNumber of ports: 1
\tFirmware version:
\tHardware version:
\tNode GUID: 0x505400fffe000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 2.5
\t\tBase lid: 0
\t\tLMC: 0
\t\tSM lid: 0
\t\tLink layer: Ethernet
"""

MLNX_QOS = """DCBX mode: OS controlled
Priority trust state: {trust}
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
default priority:
Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     {enabled}
\tbuffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  0
"""

LSPCI_CONNECTX6 = """0000:b0:01.0 PCI bridge [0604]: Intel Corporation Ice Lake Root Port [8086:347a] (rev 04) (prog-if 00 [Normal decode])
\t\tLnkCap:\tPort #9, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\t\tACSCtl:\tSrcValid{acs} TransBlk- ReqRedir{acs} CmpltRedir{acs} UpstreamFwd{acs} EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

0000:b1:00.0 Infiniband controller [0207]: Mellanox Technologies MT28908 Family [ConnectX-6] [15b3:101b]
\t\t\tMaxPayload 512 bytes, MaxReadReq {mrr} bytes
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\t{link}
\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
\t\tATSCtl:\tEnable-, Smallest Translation Unit: 00
\tKernel driver in use: mlx5_core

0000:10:1c.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16
\tKernel driver in use: nvidia
"""

CHRONY = """Reference ID    : A9FEA97B (169.254.169.123)
Stratum         : 4
Ref time (UTC)  : Wed Jun 09 23:41:53 2021
System time     : {offset} seconds {direction} of NTP time
Last offset     : +0.000000155 seconds
Leap status     : Normal
"""
CHRONY_LOST = "Reference ID    : 00000000 ()\nStratum         : 0\nLeap status     : Not synchronised\n"

DMESG_XID = "[12345.678901] NVRM: Xid (PCI:0000:18:00): {number}, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
DMESG_SXID = (
    "[12345.678901] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, {kind}, Link 32 egress non-posted PRIV error\n"
)


def rdma(name: str) -> str:
    """A recorded output of an RDMA tool; its origin stands in the README beside it."""
    return (Path(__file__).parent / "recorded_rdma" / name).read_text()
