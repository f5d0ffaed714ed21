"""How servers of models say that they failed: vLLM, SGLang, text-generation-inference, LMDeploy, TensorRT-LLM.

Lines without NCCL's own mark. A literal is looked for in every line, so it is as rare as the message.
"""

from diagnostics.parsers.programs.rows import rows

_SERVING = (
    (
        "EngineCore failed",
        "EngineCore failed to start",
        "ERROR 05-12 10:11:12 [core.py:396] EngineCore failed to start.",
    ),
    (
        "ngine core init",
        r"[Ee]ngine core initialization failed",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
    (
        "DeadError",
        r"\b(?:Async|MQ)?EngineDeadError\b.*",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
    ),
    (
        "EngineCore encountered",
        r"EngineCore encountered (?:a fatal error|an issue)",
        "EngineCore encountered a fatal error.",
    ),
    (
        "Exception in worker",
        r"Exception in worker \w+.*",
        "Exception in worker VllmWorkerProcess while processing method init_device.",
    ),
    (
        "hit an exception",
        r"\w+ hit an exception",
        "[2025-05-12 10:11:12 TP0] Scheduler hit an exception: Traceback (most recent",
    ),
    (
        "Received sigquit",
        r"Received sigquit from a child process",
        "Received sigquit from a child process. It usually means the child failed.",
    ),
    (
        "unexpectedly failed",
        r"Child process unexpectedly failed with .*",
        "Child process unexpectedly failed with an exit code 9. pid=4117",
    ),
    (
        "WorkerProc ",
        r"WorkerProc (?:failed to start|initialization failed|hit an exception).*",
        "(VllmWorker rank=2 pid=4664) ERROR 08-05 14:13:44 [multiproc_executor.py:487] WorkerProc failed to start.",
    ),
    ("detokenizer died", r"Scheduler or detokenizer died", "Scheduler or detokenizer died. Please check the logs"),
    (  # text-generation-inference
        "Error: Shard",
        r"\bError: Shard(?:CannotStart|Failed|Disconnected)\b",
        "Error: ShardCannotStart",
    ),
    (
        " failed to start",
        r"\bShard \d+ failed to start",
        "2023-10-05T22:17:51.388477Z ERROR text_generation_launcher: Shard 0 failed to start",
    ),
    (
        " crashed",
        r"text_generation_launcher: Shard \d+ crashed",
        "2024-10-01T07:43:22.392453Z ERROR text_generation_launcher: Shard 0 crashed",
    ),
    (
        "[TM][",  # LMDeploy
        r"\[TM\]\[(?:FATAL|ERROR)\] .*",
        "[TM][FATAL] models/llama/llama_utils.cu(88): Assertion fail: num_tokens",
    ),
    (
        "TensorRT-LLM][ERROR]",
        r"\[TensorRT-LLM\]\[ERROR\] .*",
        "[TensorRT-LLM][ERROR] Assertion failed: Can't get NCCL id",
    ),
)

PATTERNS = rows("launcher-failure", _SERVING, names_text=True)
