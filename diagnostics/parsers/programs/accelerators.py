"""How libraries of accelerators other than NVIDIA's and AMD's say that ranks failed: Ascend's HCCL and CANN, oneCCL.

CANN gives each error a code, ``EI0006`` and the like, before the time and the text. Read in its list of error codes and
in HCCL's guide; oneCCL prints its exceptions behind ``oneCCL:`` and the failed condition behind ``CCL_ERROR``.
"""

from diagnostics.parsers.programs.rows import rows

_CONNECTING = (
    (
        "Getting socket times out",
        r"(?P<reason>Getting socket times out\b.*)",
        "EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out. Reason: Remote Rank did not send the data in",
    ),
    (
        "wait socket establish timeout",
        r"(?P<reason>wait socket establish timeout\b.*)",
        "[ERROR] HCCL(39,a): [hccl_socket_manager.cc:816] [Wait][LinkEstablish]wait socket establish timeout, role[0]",
    ),
    (
        "Communication_Error_Get_Socket",
        r"(?P<reason>Communication_Error_Get_Socket)",
        "EI0006 Communication_Error_Get_Socket",
    ),
)
_AWAITED = (
    (
        "execution of the Notify register times out",
        r"execution of the Notify register times out",
        "EI0002: 2024-05-01 The wait execution of the Notify register times out. Reason: The Notify register has not",
    ),
)
_ABSENT = (
    (
        "anktable collection timeout",
        r"(?P<text>[Rr]anktable collection timeout.*)",
        "EI0015: Ranktable collection timeout. Failed to collect all the rank infos within the timeout interval",
    ),
    (
        "topo exchange server get socket timeout",
        r"(?P<text>topo exchange server get socket timeout.*)",
        "[ERROR] HCCL(1,a): [TopoInfoExchangeServer] topo exchange server get socket timeout! the number of connected",
    ),
)
_UNLIKE = (
    (
        "ommunication are inconsistent between ranks",
        r"(?P<text>(?:arguments|parameters) .*communication are inconsistent between ranks.*)",
        "EI0005: The arguments for collective communication are inconsistent between ranks: tag ",
    ),
)
_FAILED = (
    ("Inner Error!", r"\bE[A-Z3]\d{4}: .*Inner Error!.*|\bInner Error!", "EH9999: Inner Error!"),
    (
        "ranktable is invalid",
        r"[Tt]he ranktable is invalid.*",
        "EI0004: The ranktable is invalid, Reason:[The number of ranks is invalid]",
    ),
    (
        "hccl api failed",
        r"\bERR\d{5} DIST call hccl api failed.*",
        "[ERROR] 2024-07-01-00:40:04 (PID:176930, Device:0, RankID:-1) ERR02200 DIST call hccl api failed.",
    ),
    (
        "Hccl",
        r"\bHccl(?:Comm|All|Reduce|Broadcast|Send|Recv|Get|Barrier)\w* ?(?:is )?fail(?:ed)?\b.*",
        "[error] [hccl_runner.cpp:132] AllGatherHcclRunner:0 HcclCommInitRootInfo fail, error:2, rank:1, rankSize:4",
    ),
    (
        "function error: hccl",
        r"(?i:HCCL function error: \w+, error code is \d+.*)",
        "RuntimeError: HCCL function error: hcclCommInitRootInfo, error code is 4",
    ),
    (
        "ask run failed",
        r"\[Timeout\].*Task run failed.*|\bHCCL\(.*Task run failed.*",
        "[ERROR] HCCL(21,a):2025-10-24 [task_exception_handler.cc:908] [TaskExecStage][Timeout][Host]Task run failed,",
    ),
    (
        "oneCCL: ",
        r"oneCCL: .*(?:EXCEPTION|error|failed).*",
        "RuntimeError: oneCCL: a.cpp:42 f: EXCEPTION: fd is bad",
    ),
    ("|CCL_ERROR|", r"\|CCL_ERROR\| .*", "2024:05:01-10:00:00:(1234) |CCL_ERROR| exec.cpp:12 start: condition failed"),
    ("CCL_ERROR| ", r"^CCL_ERROR\| .*", "CCL_ERROR| ze_handle_manager.cpp:42 mem_to_ipc_handle:"),
    (
        "_RESULT_ERROR_",
        r"\b(?:ZE|UR)_RESULT_ERROR_(?:DEVICE_LOST|OUT_OF_\w+|UNKNOWN|UNINITIALIZED|INVALID_\w+)\b.*",
        "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
    ),
)
_NO_MEMORY = (
    (
        "Failed to allocate memory",
        r"\bEL0004: .*Failed to allocate memory.*",
        "EL0004: Failed to allocate memory. Possible Cause: Available memory is insufficient.",
    ),
)

PATTERNS = (
    *rows("store-failed", _CONNECTING),
    *rows("timeout-signal", _AWAITED),
    *rows("ranks-missing", _ABSENT),
    *rows("collective-mismatch", _UNLIKE),
    *rows("run-error", _FAILED, names_text=True),
    *rows("gpu-out-of-memory", _NO_MEMORY, names_text=True),
)
