"""What identifies a site, a machine or a person in a line of a log: one row a form, with what stands in for it.

Names of devices, interfaces, variables and source files, PCI addresses and pointers stay: they are alike everywhere,
and a reader needs them. Of several rows that match at one place the first counts.
"""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAINS = (
    r"(?:com|net|org|edu|gov|mil|int|io|ai|cloud|internal|local|localdomain|lan|corp|intra|private|cluster|compute"
    r"|hpc|svc|site|arpa|de|uk|fr|nl|ch|at|eu|us|ca|jp|cn|kr|in|au|se|no|fi|dk|it|es|pl|cz)"
)
_GROUP = r"[0-9A-Fa-f]{1,4}"
_IPV6 = (
    rf"(?:(?<![\w:.])|(?<=Gid)|(?<=Gids))"  # NCCL writes "remoteGidsfe80::1"
    rf"(?:(?=[0-9A-Fa-f:]{{0,38}}::)(?:{_GROUP})?(?::(?:{_GROUP})?){{2,7}}|{_GROUP}(?::{_GROUP}){{7}})"
    r"(?:%\w+)?(?![\w:]|\.\d)"  # of "::ffff:10.0.0.1" the rest is an IPv4 address
)
_SECRETS = (
    r"passw(?:or)?d|passphrase|secret|credentials?|(?:api|access|account|private|secret)[_-]?key(?:[_-]?id)?|"
    r"(?:access|auth|refresh|security|session|api|bearer|id|hub)?[_-]?token"
)
_BY_SERVICE = (  # as services whose tokens are known by their beginning make them
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|xox[a-z]-[\w-]{8,}|"
    r"sk-(?=[\w-]*\d)[\w-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)
_NAMED_HOSTS = (  # what stands in front of a host's name
    "HOSTNAME=", "NODENAME=", "MASTER_ADDR=", "master_addr=", "master-addr=", "rdzv_endpoint=", "rdzv-endpoint=",
    "RUNNING AT ", " on node ", "srun: error: ", "srun: ", "tcp://", " on host ", "hostname: ", "Hostname : ",
    "ssh: connect to host ", "Could not resolve hostname ", "pod/", "Pod ", "pod \"", "pods \"",
)  # fmt: skip
_SURELY_HOSTS = (  # what nothing but a host's name follows, which may be a word like any other
    "mpiexec@", "connect to host ", "resolve hostname ", "RUNNING AT ", "MASTER_ADDR=", "HOSTNAME=", "NODENAME=",
    "rdzv_endpoint=", "rdzv-endpoint=", "rdzv-endpoint ",
)  # fmt: skip
_OF_SYSLOG = r"(?:(?<=[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )|(?<=\d\d:\d\d[+-]\d\d:\d\d ))"
# with a digit, a dot or a dash, which words seldom have
_NAME = r"(?=[\w.-]*[\d.-])[A-Za-z][\w.-]*\w(?:[\w.-]*\[[\d,-]+\])?"
_NO_HASH = "".join(f"(?<!{word}[ =:])" for word in ("[cC]ommId", "[hH]ash", "magic", "tag", "comm", "id", "mask"))
_DOCUMENTS = r"(?:docs\.|pytorch\.org|developer\.|github\.com/(?:NVIDIA|pytorch|ROCm|ray-project)/)"


def _behind(words: tuple[str, ...]) -> str:
    """An expression for a place behind one of some words."""
    return "(?:" + "|".join(f"(?<={word})" for word in words) + ")"


KINDS = (
    ("secret", rf"(?i:\b\w*(?:{_SECRETS})(?:=|[\"']?: ?)[\"']?)[^&;,\s\"'}}{{]+"),
    ("secret", rf"\b(?:{_BY_SERVICE})"),
    ("secret", r"\b(?i:bearer|basic) (?=\S*[\d=.])[A-Za-z0-9._~+/=-]{16,}"),
    (
        "url",
        rf"(?<![\w])(?:https?|s3|gs|gcs|hdfs|abfss?|wasbs?|nfs|file|ftp|git|redis|mongodb)://(?!{_DOCUMENTS})[^\s\"'<>)\]]+",
    ),
    ("mail", r"(?<![\w.@+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}(?![\w.-]*\()"),
    ("uuid", r"(?:(?<![\w-])|(?<=GPU-)|(?<=MIG-))[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![\w-])"),
    ("uuid", r"(?<=fabric UUID )(?!0\.0\b)[0-9a-f]+\.[0-9a-f]+"),
    ("uuid", r"(?i:(?<=serial )|(?<=serial number )|(?<=serial no ))(?=[A-Z0-9-]*\d)[A-Z0-9-]{8,}\b"),
    ("uuid", r"(?i:(?<=serial: )|(?<=serial number: )|(?<=serial=))[\w-]{6,}"),
    ("guid", r"(?i:(?<=guid )|(?<=guid: )|(?<=guid=)|(?<=guid:)|(?<=subnet-prefix ))(?:0x)?[0-9a-fA-F]{16,20}\b"),
    (
        "ip",
        r"(?<=\w:)(?=[0-9A-Fa-f:]*::?[0-9A-Fa-f:]*)[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]+(?:%\w+)?(?=<\d)",
    ),  # eth0:fe80::1<0>
    ("host", r"(?<![\w-])ip-\d{1,3}(?:-\d{1,3}){3}(?![\w])(?:\.[\w-]+)*"),
    ("user", r"(?<=~)[a-z_][\w-]*(?=/)"),
    ("user", r"(?<=uid=)\d+|(?<=UID:)\d+|(?<=UID )\d+|(?<=UID: )\d+"),
    ("account", r"(?<=:)\d{12}(?=:)"),  # of AWS, in the name of a resource
    ("user", r"(?<![\w.@/-])[A-Za-z_][\w.-]*(?=@[A-Za-z][\w.-]*(?:: | port | failed|'s password|$))"),
    ("host", r"(?<=@)[A-Za-z][\w.-]*\w(?=: | port | failed|'s password|$)"),
    ("job", _behind(("JobId=", "job_id=", "Job ", "job ", "jobid ", "JobID ")) + r"\d{4,}\b"),
    ("host", _behind(_SURELY_HOSTS) + r"(?!localhost\b)[A-Za-z][\w.-]*\w"),
    ("host", _OF_SYSLOG + r"[A-Za-z][\w.-]*(?= [\w./-]+(?:\[\d+\])?: )"),
    ("host", r"(?<=srun: error: )[A-Za-z][\w.-]*(?:\[[\d,-]+\])?(?=: tasks? \d)"),
    ("host", _behind(_NAMED_HOSTS) + _NAME),
    ("host", rf"(?<= )(?!CUDA|HIP|GPU){_NAME}(?= +device +\d)"),  # rows of nccl-tests
    ("lid", r"(?i:(?<=\blid )|(?<=\blid: )|(?<=\blid=)|(?<=[sd]lid )|(?<=[sd]lid: )|(?<=[sd]lid=))(?!0\b)\d{1,5}\b"),
    ("mac", r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){19}[0-9A-Fa-f]{2}(?![\w:])"),  # of IP over InfiniBand
    ("guid", _NO_HASH + r"(?<![\w.])0x(?!ffff|0000)[0-9a-f]{16}\b"),
    ("mac", r"(?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:])"),
    ("guid", r"(?<![\w:])[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}(?![\w:])"),
    ("gid", r"(?<=\()[0-9A-Fa-f]{1,16}/[0-9A-Fa-f]{1,16}(?=\))"),
    ("ip", _IPV6),
    ("ip", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"),
    # paths but those of the system, which tell nothing of the site; the name of a source file stays
    (
        "path",
        (
            r"(?<![\w./@:-])/(?!(?:dev|sys|proc|usr|lib|lib64|etc|bin|sbin|opt)/)"
            r"(?:(?:[\w.@+~=-]+/)*[\w.@+~=-]+(?=/[\w.-]+\.(?:cc|cu|cpp|c|h)\b)|(?:[\w.@+~=-]+/)+[\w.@+~=-]+)"
        ),
    ),
    ("user", r"(?:(?<=USER=)|(?<=user=)|(?<=LOGNAME=)|(?<=User: )|(?<=user: ))[A-Za-z_][\w.@-]*"),
    ("job", r"(?:(?<=JOB_NAME=)|(?<=JOBNAME=)|(?<=job-name=)|(?<=JOBID=)|(?<=JOB_ID=)|(?<=StepId=))[\w.@+-]+"),
    ("job", r"(?:(?<=JOB )|(?<=STEP ))\d+(?:\.\d+)?(?= ON )"),
    ("host", r"(?<= ON )[A-Za-z][\w.-]*(?= CANCELLED)"),
    ("host", r'(?:(?<="hostname":")|(?<="hostname": "))[^"]+'),
    # NCCL's prefix, which a time before a bracket resembles
    (
        "host",
        r"(?<![\w.-])(?!\d+:|\d{4}-\d\d-\d\d)[A-Za-z0-9][\w.-]*(?=:\d+:\d+ ?(?:\[|NCCL )|:\d+ NCCL DIAG)",
    ),
    ("host", r"(?<=\[)[A-Za-z][\w.-]*(?=\]:\d)|(?<=\()[A-Za-z][\w.-]*(?=, \d{2,5}\))"),  # of PyTorch's sockets
    ("host", rf"(?<![\w./-])(?:{_LABEL}\.)+{_DOMAINS}(?![\w-]|\.\w)"),
)
