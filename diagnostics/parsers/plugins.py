"""External network plugins: found, broken, and what they say of themselves.

``NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.`` is version probing and means nothing. ``NET/Plugin: <library>:
<linker's text>`` (2.22+) means that the file exists but cannot be loaded.
"""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="plugin-absent",
        literal="Plugin",
        expression=(
            r"^NET/Plugin ?: (?:(?:Plugin load returned 2 : .*|dlerror=(?P<linker>.*?) )?No plugin found(?: "
            r"\((?P<name>[^)]*)\))?"
            r"|Could not find: (?P<names>.*?)\.? *(?:Using internal net(?:work)? plugin\.)?$)"
        ),
        samples=(
            "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            "NET/Plugin: Could not find: libnccl-net-aws-ofi.so. Using internal network plugin.",
        ),
    ),
    Pattern(
        kind="plugin-load-error",
        literal="NET/Plugin",
        expression=(
            r"^NET/Plugin ?: (?:dlerror=|(?:Most recent p|P)lugin load (?:\((?P<name>[^)]*)\) )?returned \d+ : )?"
            r"(?P<library>[\w./+\-]+\.so[.\d]*|[\w.+\-]*/[\w./+\-]+): (?!\s)(?P<reason>.+)"
        ),
        samples=(
            "NET/Plugin: libfabric.so.1: cannot open shared object file: No such file or directory",
            "NET/Plugin: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by libnccl-net.so)",
            "NET/Plugin: /opt/libnccl-net-custom.so: file too short",
            "NET/Plugin : Plugin load (libnccl-net-custom.so) returned 0 : libnccl-net-custom.so: invalid ELF header",
            "NET/Plugin: libnccl-net-custom.so: /opt/libnccl-net-custom.so: wrong ELF class: ELFCLASS32",
            "NET/Plugin: /opt/plugins: cannot read file data: Is a directory",
        ),
    ),
    Pattern(
        kind="plugin-loaded",
        literal="Loaded net plugin",
        expression=r"Loaded net plugin (?P<name>.+?)(?: \((?P<interface>v\d+)\))?$",
        samples=("NET/Plugin: Loaded net plugin NCCL RDMA Plugin v9 (v9)",),
    ),
    Pattern(  # of NVIDIA's plugin for verbs, which is of several networks in one, once it starts
        kind="plugin-named",
        literal="P2P plugin ",
        expression=r"^P2P plugin (?:v\d+ )?(?P<name>IBext\w*|UCX\S*)\s*$",
        samples=("P2P plugin IBext", "P2P plugin v8 IBext_v8", "P2P plugin UCX"),
    ),
    Pattern(
        kind="plugin-unusable",
        literal=" plugin ",
        expression=(
            r"External network plugin (?P<library>\S+) is unsupported|Failed to initialize NET plugin (?P<name>.+)"
        ),
        samples=("External network plugin libnccl-net.so is unsupported", "Failed to initialize NET plugin IB"),
    ),
    Pattern(
        kind="plugin-none",
        literal="any NET plugin",
        expression=r"(?P<text>Failed to initialize any NET plugin)",
        samples=("Failed to initialize any NET plugin",),
    ),
    Pattern(
        kind="network-not-found",
        literal="Error: network",
        expression=r"Error: network (?P<name>.+) not found",
        samples=("Error: network AWS Libfabric not found.",),
    ),
    Pattern(
        kind="ofi",
        literal="NET/OFI",
        expression=r"NET/OFI (?P<text>.*)",
        samples=("NET/OFI Initializing aws-ofi-nccl 1.9.2-aws",),
    ),
    Pattern(
        kind="ofi-provider",
        literal="rovider is",
        expression=(
            r"NET/OFI Selected [Pp]rovider is (?P<provider>[\w;+\-]+)(?:, fabric is [^(]*)?(?: "
            r"?\(found (?P<nics>\d+) nics\))?"
        ),
        samples=(
            "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)",
            "NET/OFI Selected Provider is tcp;ofi_rxm",
        ),
    ),
    Pattern(
        kind="ofi-platform",
        literal="platform",
        expression=r"NET/OFI Running on (?P<platform>\S+) platform",
        samples=("NET/OFI Running on p4d.24xlarge platform, topology file x.xml",),
    ),
    Pattern(
        kind="ofi-failed",
        literal="NET/OFI",
        expression=(
            r"NET/OFI (?P<reason>aws-ofi-nccl initialization failed|No eligible providers were found"
            r"|Could(?:n't| not) find any optimal provider|Failed to initialize .*"
            r"|(?:OFI )?fi_getinfo\(\) call failed: .*"
            r"|Creating new \w+ for .* failed: .*|Disabling shared memory failed: .*"
            r"|Unable to find a protocol that worked.*|Initializing plugin failed"
            r"|(?:Unexpected|Wrong|Invalid) number of .*)"
        ),
        samples=(
            "NET/OFI aws-ofi-nccl initialization failed",
            "NET/OFI Could not find any optimal provider",
            "NET/OFI OFI fi_getinfo() call failed: No data available",
            "NET/OFI Creating new endpoint for domain 0x7f9b failed: Invalid argument",
            "NET/OFI Unexpected number of remote rails for dev 0. Expected 3 but got 2",
            "NET/OFI Wrong number of rails 1. Expected 4",
        ),
    ),
    Pattern(
        kind="plugin-registration-failed",
        literal="ailed",
        expression=(
            r"NET/OFI Unable to register memory.*RC: (?P<code>-?\d+)|Failed: UCX error (?P<ucx>\S+ '-?\d+' .*)"
            r"|UCX +ERROR (?P<insert>"
            r"(?:failed to (?:insert|register) |ibv_(?:exp_)?(?:reg|create)_(?!ah\b)\w+\(.*\) failed: ).*)"
        ),
        samples=(
            "Failed: UCX error ucx_plugin.c:498 '-5' Invalid parameter",
            "ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7f, length=4096, access=0xf) failed: Cannot allocate memory",
            "ib_md.c:329  UCX  ERROR ibv_exp_reg_mr(address=0x2a, length=9536) failed: Cannot allocate memory",
        ),
    ),
    Pattern(
        kind="plugin-registration-failed",
        literal="Unable to register memory",
        expression=r"Unable to register memory.*RC: (?P<code>-?\d+)",
        samples=("NET/OFI Unable to register memory (type = 2) for device 0. RC: -12, Error: Cannot allocate memory",),
    ),
    Pattern(  # of Google's GPUDirect-TCPX
        kind="plugin-registration-failed",
        literal="x_reg_mr failed",
        expression=r"(?P<insert>gpu_[rt]x_reg_mr failed -?\d+)",
        samples=("gpu_tx_reg_mr failed -5",),
    ),
    Pattern(
        kind="plugin-registration-failed",
        literal="only RegMr",
        expression=r"(?P<insert>p2pdma api won't work with only RegMr.*)",
        samples=("p2pdma api won't work with only RegMr, due to alignment issue",),
    ),
    Pattern(
        kind="plugin-request-failed",
        literal="completed with error",
        expression=(
            r"Request \S+ completed with error\. RC: (?P<code>-?\d+)\. Error: "
            r"(?:(?P<error>-?\d+) \((?P<reason>[^)]*)\)|(?P<text>[^.]+))"
        ),
        samples=(
            "NET/OFI Request 0x55 completed with error. RC: 113. Error: 4113 (Unresponsive receiver)",
            "NET/OFI Request 0x7f completed with error. RC: 21. Error: unknown error. Completed length: 0",
        ),
    ),
    Pattern(
        kind="sharp-unavailable",
        literal="SHARP",
        expression=r"SHARP (?:coll init error|group create): (?P<reason>.*)|SHARP: Group size .* fallback to non-sharp",
        samples=(
            "NET/IB :SHARP coll init error: Cannot create SHArP job(-11)",
            "SHARP group create: Streaming Tree lock failed (-18)",
        ),
    ),
    Pattern(
        kind="sharp-unavailable",
        literal="CollNet",
        expression=(
            r"Cannot initialize CollNet, using|CollNet is not supported or fails to initialize, "
            r"ignoring NCCL_ALGO=COLLNET"
        ),
        samples=("Cannot initialize CollNet, using point-to-point network instead",),
    ),
    Pattern(
        kind="vendor-network",
        literal="NET/",
        expression=r"NET/(?P<name>FastSocket|GPUDirectTCPX|FasTrak|gIB)\b",
        samples=("NET/FastSocket : Using [0]ens12:10.0.19.12<0>", "NET/gIB : Initializing gIB v1.0.6"),
    ),
)
