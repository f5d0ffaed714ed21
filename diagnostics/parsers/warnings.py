"""What NCCL warns of in words of its own, by what is to be done about it: one table, a wording a row.

``*`` stands for whatever a release puts there. The wordings are those of NCCL 2.0 to 2.30 behind which a call fails;
each is looked for in warnings, and in what a program repeats as NCCL's last error. Those behind ``+`` are NCCL's own
words wherever they stand, and are read without its mark too. The rest are words of many programs (``malloc of 12 bytes
failed``, ``GIN is disabled.``, ``Could not find id 7``, ``DOCA Error 7``): without the mark they count behind "last
error:" only. What no rule asks for, such as ``call-refused``, says that the run failed.
"""

import re
from collections.abc import Iterator

from diagnostics.parsers.base import Pattern

_TABLE = r"""
[call-refused]
+ : * is not a valid pointer
+ : invalid root * (root should
+ : invalid reduction operation *
: invalid type *
+ allocated on device * mismatchs with NCCL device
+ Data type supplied to user-created ncclRedOp_t does not match
+ ncclRedOpDestroy : *
+ improper usage of ncclCommInitRank
+ Invalid config * attribute value
+ ncclConfig_t argument not initialized via
+ ncclSimInfo_t argument not initialized via
+ argument must be initialized via NCCL_
+ Attempt to use communicator before the previous operation returned
+ comm * has already been destroyed
+ : communicator was revoked
+ ncclGroupEnd: not in a group call
+ Blocking and nonblocking communicators are not allowed
+ in a ncclGroup() can be CUDA graph captured
+ Illegal to have some communicators in graph mode while others not
+ Streams given to a communicator within a NCCL group must
+ mixing different streams within a group call is not supported
+ Stream is not being captured by the expected graph
+ Trying to recv to self without a matching send
+ Trying to send to self without a matching recv
+ Split shares resources, but parent comm netName
+ Comm config netName (*) does not match the parent
+ ncclCommGrow: *
+ ncclCommGetUniqueId should not be called when NCCL_COMM_ID is set
+ bcastGrowHandle: parent comm
+ FP8 reduction support begins with sm90
+ ncclPutSignal*: *
+ ncclSignal: count must be 0
+ ncclWaitSignal: *
+ symmetric registration check failed on rank
+ does not satisfy symmetric registration requirements
+ all ranks must have identical segment configurations
+ MemManager: Already suspended
[library-too-old]
+ NCCL library* is too old. * compiled with NCCL version
+ NCCL library is not backwards compatible. * compiled with NCCL version
+ application was compiled with too old version of NCCL
[driver-too-old]
+ installed CUDA driver is older than the minimum version
+ NCCL does not support this CUDA version for CUDA graph feature
+ NCCL cannot be captured in a graph if either it wasn't built
+ CUMEM not supported prior to CUDA
+ CUMEM Host is not supported prior to CUDA
+ One-sided RMA requires CUDA driver * or later (found
requires CUDA driver * or later (found
+ Unable to create thread context due to old driver
[driver-library-missing]
+ Failed to find CUDA library *
[cuda-refused]
+ Failed to create CUDA context on device *
+ Failed to set CUDA device *
+ Failed to set CUDA context on device *
+ * exceeds device/fn maxSharedMem
+ hostStreamPlanCallback() failed : *
Failure in host setup : *
[host-memory]
+ Failed to malloc * bytes
malloc of * bytes failed
+ Unrecoverable error detected: malloc(size=*) returned null
+ Intrusive address map * failed: *alloc(* entries) returned null
+ NCCL allocation failed
comm allocation failed
failed to allocate * byte host buffer
Allocation failed at *:
+ Bootstrap thread : failed to allocate memory
+ MemManager: Failed to allocate
NET/Socket : unable to allocate subtasks
Failed to allocate failure queue node
[thread-refused]
+ Thread creation failed: Resource temporarily unavailable
+ Thread creation failed: Cannot allocate memory
Thread creation failed: *
+ Call to pthread_create failed*: *
[gin-unavailable]
+ No GIN-capable devices found
+ No RMA-capable devices found
GIN not supported.
RMA not supported.
GIN is disabled.
+ Unable to use GIN: *
+ GIN-capable device type mismatch
+ GIN plugin * does not support
+ GIN plugin does not support
+ signals are required, but the GIN plugin does not support
+ GIN plugin * returned invalid context
+ User requested GIN but not all ranks in the communicator support GIN
+ User requested GIN connection type
+ exclusive GIN contexts (*) exceeds
+ No shared contexts are available (* requested)
+ No network devices that support GDAKI found
+ requires DMABUF support with GIN
+ * is currently not supported with GIN
+ GIN Symmetric register failed
+ RMA Symmetric register failed
+ One sided RMA: * not supported in this communicator
+ Communicator does not support symmetric memory
+ GIN Proxy: RMA backend not found
+ RMA proxy backend type mismatch
+ * connect : min local net count is zero
+ GIN Error detected
+ GIN Error on gin context
DOCA Error *
DOCA failure *
[limit-exceeded]
+ * ranks exceeds MAXRANKS of *
+ too many XML nodes (max *
+ too many XML subnodes (max *
+ too many Topo links (max *
+ Error : tried to create too many nodes of type *
+ ran out of room to store found nodes
+ reported more devices (*) than the internal maximum
CUDA device * >= MAX *
+ Too many aggregated operations *(* max)
+ Trying to launch too many work elements
+ Trying to launch too many collectives
+ Too many async operations in progress, max
+ [Proxy service] Too many connections (* max)
+ Cannot store sizes of * requests in a
+ Scheduler ran out of channel space
+ too many DEV nodes for busId
exceeded number of local ranks
Cannot allocate any more virtual devices
Cannot use physical device *, max
+ MLOPart index * out of range
+ Recursive P2P computation cannot work for >8 GPUs
[variable-refused]
+ NCCL_WORK_FIFO_DEPTH=*' is too small
+ NCCL_GIN_*_POOL_SIZE has invalid value
+ Invalid NCCL_COMM_BLOCKING value
+ Could not force merge NICs
+ Specified fused NIC * which has too many devices
+ TOPO/NET : Only matched * devices, * requested from
+ Tried to merge too many NICs
+ Trying to merge multiple devices together when NCCL_IB_MERGE_NICS=0
+ OOO RQ is force enabled but
+ NCCL_IB_SUBNET_PREFIX_LEN=* is out of range
+ NCCL cannot use a plane ID
+ NCCL cannot use more than * plane IDs
+ All entries except the first must have a prefix
Resiliency is enabled on a * with a single device
+ NCCL_NVLS_ENABLE has been set to * This is not compatible
+ but NCCL_ELASTIC_BUFFER_REGISTER is set to 0
[topology-unusable]
+ Error : could not find CPU close to GPU
Could not find gpu rank *
+ Could not find GPU with rank *
+ Could not find local GPU with rank *
Could not find net id *
+ Could not find NET with id *
Could not find id *
Could not find node of type * id
+ Could not find rev link for
+ Could not find intermediate GPU between
+ Could not find any local path from gpu * to net
+ Could not find NIC for rank * in NVLS graph
+ No path computed to go from
+ Failed to find reverse path from
Could not find real path of *
+ requires NIC * but that NIC is not available
+ Internal error : NVswitch links mismatch
+ Add NVLink error : could not find
+ Add C2c error : could not find
+ Add PCI Link error : could not find PCI SW
+ could not find CPU numa ID
+ KV Convert to *: could not find value * in dictionary
Error : name * too long (max
Error : value * too long (max
+ system node not found in XML
+ getXmlFromCpu: Unknown CPU architecture
+ not found in the list of system hostHashes
+ NET/TOPO : Couldn't find net with name
+ Can't find busId of child
+ Could not find transport to connect next group
+ Fusing NET devices from different NUMA domains
[plugin-incompatible]
+ NCCL_DEVICE_UNPACK plugin has incompatible version
+ net plugin returned invalid value for max
+ collnet plugin returned invalid value for max
+ * requires GIN PROXY type, got
+ Error : Network returned 0 device
[gdrcopy-failed]
+ GDRCOPY failure *
+ GDRCOPY lib wrapper not initialized
+ GDRCopy >= 2.5 required
+ gdr_pin_buffer(* failed: *
+ gdr_pin_buffer_v2(* failed: *
+ gdr_map(* failed: *
+ gdr_get_info(* failed: *
+ gdr_copy_to_mapping(* failed: *
+ gdr_copy_from_mapping(* failed: *
[nic-failed]
NET/IB: *Device * marked as failed
NET/IB: *Fatal error. Detected * failed devices out of
NET/IB: *Could not find a functional device
NET/IB: *Could not find a replacement QP
NET/IB: *Maximum number of probing attempts * reached
NET/IB: *The error is fatal (
NET/IB: *Unsupported completion status
[ipc-failed]
+ rank * failed to get CUDA IPC handle
+ rank * failed to open CUDA IPC handle
+ rank * failed to open Ipc handle to rank
+ ncclProxyCallBlockingUDS call to tpRank * failed
+ ncclProxyClientGetFd call to * failed
+ ncclProxyClientConvertFd call to * failed
+ ncclProxyClientQueryFdBlocking call to * failed
[nvls-failed]
+ Multicast support requested for team but none available
+ Multimem pointer requested but system does not support multimem
[receive-mismatch]
+ posted incorrect receive info
[address-invalid]
+ Net : Unsupported address family type
+ Net : unsupported IP family
+ Net : string is null
[link-layer-mismatch]
+ Can't connect net devices with different link_layer
+ with different link_layer properties
[nic-count-differs]
NET/IB : Local mergedDev* has a different number of devices
"""


_OWN = "+ "


def _rows() -> Iterator[tuple[str, str]]:
    kind = ""
    for row in _TABLE.strip("\n").splitlines():
        if row.startswith("[") and row.endswith("]"):
            kind = row[1:-1]
        else:
            yield kind, row


def _pattern(kind: str, wording: str) -> Pattern:
    parts = wording.split("*")
    return Pattern(
        kind=kind,
        literal=max(parts, key=len),
        expression="(?P<text>.*" + ".{0,400}?".join(map(re.escape, parts)) + ".*)",
        samples=(wording.replace("*", "3"),),
    )


PATTERNS = tuple(_pattern(kind, wording.removeprefix(_OWN)) for kind, wording in _rows())
OWN_WORDS = tuple(_pattern(kind, row.removeprefix(_OWN)) for kind, row in _rows() if row.startswith(_OWN))
KINDS = frozenset(kind for kind, _ in _rows())
