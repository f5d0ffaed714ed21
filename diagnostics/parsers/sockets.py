"""Errors of sockets: no interface, no connection, a peer that went away, an unknown client."""

from diagnostics.parsers.base import Pattern

_REASON = (
    r"(?P<reason>Connection refused|Connection timed out|No route to host|Network is unreachable|Connection "
    r"reset by peer"
    r"|Cannot assign requested address|Broken pipe|Operation now in progress|Software caused connection abort"
    r"|Network is down|Host is down|Operation not permitted|Permission denied|Address already in use"
    r"|Resource temporarily unavailable|Too many open files(?: in system)?|Cannot allocate memory|Invalid argument"
    r"|No buffer space available|Bad file descriptor|Operation not supported|Operation timed out|Protocol error"
    r"|Transport endpoint is not connected|Address family not supported by protocol|Interrupted system call"
    r"|errno \d{1,3}\b|\d{1,3}(?=[\s,)]|$)"
    r"|(?:No route|Network is|Connection (?:ref|res|ti))[a-z ]*$)"  # cut by a terminal
)

PATTERNS = (
    Pattern(
        kind="no-interface",
        literal="nterface found",
        expression=(
            r"(?P<what>Bootstrap : no socket interface found|NET/Socket : No usable listening interface found"
            r"|NET/\w+ : [Nn]o (?:IP )?interface found|No interface found in the same subnet as remote "
            r"address (?P<peer>\S+))"
        ),
        samples=("Bootstrap : no socket interface found", "NET/IB : No IP interface found."),
    ),
    Pattern(  # up to 2.2, of the address of no interface at all
        kind="no-interface",
        literal="family not supported",
        expression=r"(?P<what>Socket creation failed : Address family not supported by protocol)",
        samples=("Socket creation failed : Address family not supported by protocol",),
    ),
    Pattern(
        kind="no-interface",
        literal="no device found",
        expression=(
            r"no device found (?:matching(?: exactly)?|after excluding) (?P<filter>.*?), verify NCCL_OOB_NET_IFNAME"
        ),
        samples=("no device found matching eth9, verify NCCL_OOB_NET_IFNAME",),
    ),
    Pattern(
        kind="no-interface",
        literal="getifaddrs",
        expression=r"(?P<what>Call to getifaddrs failed ?: .*)",
        samples=("Call to getifaddrs failed: Permission denied",),
    ),
    Pattern(
        kind="connect-retry",
        literal="retrying",
        expression=(
            r"(?:[Cc]onnect|socket\w*)(?:.*? to (?P<peer>[^\s<]+<\d+>))?.*?(?:returned|timeout :|failed :?) "
            r"(?:\d{1,3}\()?" + _REASON + r".*?, retrying(?: \((?P<attempt>\d+)/(?P<limit>\d+)\))?"
        ),
        samples=(
            "socketPollConnect: connect to 127.0.0.1<45787> returned Connection refused, retrying (28/34) after sleep",
            "Call to connect returned Connection refused, retrying",
        ),
    ),
    Pattern(
        kind="retry",
        literal="retrying",
        expression=r"(?P<what>(?:fallocate: |Call to ibv_\w+ )[^\n]{3,200}?)(?:,| -) retrying\b",
        samples=("fallocate: Failed to extend /dev/shm/nccl-a to 34210180 bytes, error: No space (28) - retrying",),
    ),
    Pattern(
        kind="connect-failed",
        literal="onnect",
        expression=(
            # reports that are published may leave the peer out, or put words in its place
            r"(?:Connect|connect)(?: to\b(?: +(?P<peer>[^\s(\[]\S*|[(\[][^()\[\]]{0,40}[)\]]\S*))?)? +"
            r"(?:failed|timeout|returned|returned error)\s*:? ?(?:\d{1,3}\()?" + _REASON + r"(?P<retrying>, retrying)?"
        ),
        samples=(
            "Net : Connect to 10.120.24.10<52061> failed : No route to host",
            "socketStartConnect: Connect to 10.0.0.1<4> failed : Connection refused",
            "socketPollConnect: connect to 10.0.0.1<4> returned Connection timed out, exceeded error retry count",
            "socketPollConnect: Connect to 10.0.0.4<5> returned 113(No route to host) errno 115(Operation in progress)",
            "Call to connect returned Connection refused, retrying",
            "Call to connect timeout : Connection refused",
            "socketStartConnect: Connect to 10.0.0.1<4> failed : errno 113",
            "Net : Connect to 10.0.0.1<4> failed : No route to",
        ),
    ),
    Pattern(
        kind="connect-failed",
        literal="POLLOUT",
        expression=r"socketPollConnect poll\(\) returned -?\d+, (?P<reason>no POLLOUT events)",
        samples=("socketPollConnect poll() returned 1, no POLLOUT events",),
    ),
    Pattern(
        kind="connect-failed",
        literal="ocketPollConnect",
        expression=r"ocketPollConnect (?:poll\(\)|to(?: (?P<peer>\S+))?) failed with error " + _REASON,
        samples=(
            "socketPollConnect poll() failed with error Connection refused",
            "ncclOsSocketPollConnect to 10.0.0.1<4> failed with error No route to host",
        ),
    ),
    Pattern(
        kind="connect-failed",
        literal="exceeded ",
        expression=r"socket(?:Start|Poll)Connect: exceeded (?P<reason>retries|timeouts) \(\d+\)",
        samples=("socketPollConnect: exceeded timeouts (3)",),
    ),
    Pattern(
        kind="address-invalid",
        literal="NCCL_COMM_ID",
        expression=r"Invalid NCCL_COMM_ID|NCCL_COMM_ID.*(?:invalid|please use format)",
        samples=("Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>",),
    ),
    Pattern(
        kind="address-invalid",
        literal="pair found",
        expression=r"Net : (?P<reason>No valid \S+port>? pair found)",
        samples=("Net : No valid <IPv4_or_hostname>:<port> pair found",),
    ),
    Pattern(
        kind="address-invalid",
        literal="getaddrinfo",
        expression=r"getaddrinfo.*(?P<why>failed|not known)",
        samples=("getaddrinfo of node7 failed",),
    ),
    Pattern(
        kind="address-invalid",
        literal="getting address info",
        expression=r"error encountered when getting address info ?: (?P<reason>.*)",
        samples=("Net : error encountered when getting address info : Name or service not known",),
    ),
    Pattern(
        kind="peer-closed",
        literal="losed by remote peer",
        expression=r"Connection closed by remote peer ?(?P<peer>[^\s<]\S*)?",
        samples=("socketProgress: Connection closed by remote peer node02<35187>",),
    ),
    Pattern(
        kind="peer-closed",
        literal="Call to ",
        expression=r"Call to (?:recv|send|recv from|send to|read|write)(?: (?:from |to )?(?P<peer>\S+))? failed ?: "
        r"(?P<reason>[A-Z][^,]*)",
        samples=(
            "Call to recv failed : Connection reset by peer",
            "socketProgressOpt: Call to recv from 10.0.0.1<4> failed : Connection reset by peer",
        ),
    ),
    Pattern(
        kind="foreign-connection",
        literal="wrong ",
        expression=r"wrong (?P<what>magic|type) (?P<seen>\w+) != (?P<wanted>\w+)",
        samples=("socketFinalizeAccept: wrong type 4 != 3", "socketFinalizeAccept: wrong magic 3132333435 != 564ab9f2"),
    ),
    Pattern(
        kind="foreign-connection",
        literal="magic",
        expression=r"receive a valid (?P<what>magic) from (?P<peer>\S+)|socket (?P<mismatch>magic) mismatch",
        samples=("ncclSocketAccept: didn't receive a valid magic from 10.0.0.9<3>",),
    ),
    Pattern(
        kind="foreign-connection",
        literal="address family",
        expression=r"(?:unexpected|unsupported|wrong|unknown) (?P<what>address family) ?(?P<seen>\S*)",
        samples=("Net : connecting to address with unexpected address family 1280",),
    ),
    Pattern(
        kind="foreign-connection",
        literal="AF_INET",
        expression=r"connecting to (?P<what>address) .*with family (?P<seen>\d+) is neither AF_INET",
        samples=("ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",),
    ),
    Pattern(
        kind="allocator-refused",
        literal="Rem Allocator",
        expression=r"\[Rem Allocator\] Allocation failed \(segment (?P<segment>\d+), fd (?P<fd>\d+)\)",
        samples=("[Rem Allocator] Allocation failed (segment 0, fd 130)",),
    ),
    Pattern(
        kind="rank-count-mismatch",
        literal="Bootstrap Root",
        expression=(
            r"Bootstrap Root : (?:mismatch in (?:rank count|info) from procs,? (?P<counts>.*)"
            r"|rank (?P<rank>\d+) of (?P<nranks>\d+) ranks has already checked in|localId \d+ is out of range)"
        ),
        samples=(
            "Bootstrap Root : mismatch in rank count from procs 16 : 8",
            "Bootstrap Root : rank 0 of 2 ranks has already checked in",
        ),
    ),
    Pattern(
        kind="rank-count-mismatch",
        literal="nvalid rank",
        expression=r"Invalid rank requested ?: (?P<rank>-?\d+)/(?P<nranks>-?\d+)",
        samples=("Invalid rank requested : 5/2",),
    ),
    Pattern(
        kind="files-exhausted",
        literal="Too many open files",
        expression=(
            r"(?:Call to \w+(?: (?:from|to) \S+)? failed|[Aa]ccept failed|[Cc]reation (?:failed|error)|[Ss]ocket\w*"
            r"|retry count[^,]{0,30}|shared memory .{1,200}error|/dev/shm/\S+ .{1,80}error)\W{1,3}"
            r"(?P<reason>Too many open files(?: in system)?)"
        ),
        samples=(
            "Call to socket failed : Too many open files",
            "UDS: Socket creation error : Too many open files (24)",
            "socketTryAccept: exceeded error retry count after 34 attempts, Too many open files",
            "Error while creating shared memory segment /dev/shm/nccl-a (size 963), error: Too many open files (24)",
        ),
    ),
    Pattern(
        kind="files-exhausted",
        literal="Call to ",
        expression=r"Call to \w+ failed ?: (?P<reason>errno 2[34])\b",
        samples=("Call to socket failed : errno 24",),
    ),
    Pattern(
        kind="proxy-victim",
        literal="ervice",
        expression=(
            r"\[(?:Service thread|Proxy Service\b[^\]]*)\] (?:Accept failed|Could not receive type"
            r"|(?:Error encountered progressing operation=|Failed to execute operation )(?P<operation>\w+)"
            r"|Connection closed by localRank)"
        ),
        samples=(
            "[Service thread] Accept failed Resource temporarily unavailable",
            "[Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 3",
            "[Service thread] Error encountered progressing operation=Connect, res=2, closing connection",
        ),
    ),
    Pattern(
        kind="proxy-victim",
        literal="roxy",
        expression=r"Proxy Call to rank \d+ failed \((?P<operation>\w+)\)",
        samples=("Proxy Call to rank 3 failed (Connect)",),
    ),
    Pattern(
        kind="proxy-victim",
        literal="polling for opId",
        expression=r"Socket recv failed while polling for (?P<operation>opId)",
        samples=("Socket recv failed while polling for opId=0x7fa0242685e0",),
    ),
    Pattern(
        kind="trace",
        literal=" -> ",
        expression=r"(?P<file>(?:[\w/.\-]+/)?(?P<unit>net_socket|net_ib|socket|bootstrap|shm|p2p|nvls|init|net)(?:/\w+)?\.c[cu]?)"
        r":\d+ (?:\(\w+\) )?-> (?P<code>\d+)",
        samples=(
            "transport/net_socket.cc:403 -> 3",
            "bootstrap.cc:76 -> 3",
            "transport/net_socket.cu:139 -> 2",
            "misc/socket.cc:567 -> 2",
        ),
    ),
    Pattern(
        kind="ras-port",
        literal="RAS",
        expression=r"RAS .*(?:[Aa]ddress already in use|bind.*failed|failed to (?:bind|listen|establish))",
        samples=("RAS failed to bind client listening socket at 127.0.0.1<28028>: Address already in use",),
    ),
    Pattern(
        kind="bind-failed",
        literal="bind failed",
        expression=r"Call to bind failed ?: (?P<reason>Address already in use|Cannot assign requested address)",
        samples=("Call to bind failed: Address already in use",),
    ),
    Pattern(  # what a process could not do with a socket of its own
        kind="socket-refused",
        literal="ailed",
        expression=(
            r"(?:Call to (?P<call>bind|listen|accept|socket|setsockopt|getsockopt|getsockname|fcntl|poll) failed ?: ?"
            r"|(?:Socket creation|[Tt]ryAccept: Accept) failed ?: ?|socketPollConnect poll\(\) failed with error )"
            r"(?P<reason>(?!To|Address family|Resource temp|Connection |Call )[A-Z].*)"
        ),
        samples=(
            "Call to listen failed: Address already in use",
            "Call to socket failed : Operation not permitted",
            "Net : Socket creation failed : Permission denied",
        ),
    ),
    Pattern(
        kind="socket-refused",
        literal="exceeded error retry count",
        expression=(
            r"TryAccept: exceeded error retry count(?: \(\d+\)| after \d+ attempts)?, "
            r"(?P<reason>(?!To)[A-Z].*)"
        ),
        samples=("socketTryAccept: exceeded error retry count after 34 attempts, Software caused connection abort",),
    ),
    Pattern(
        kind="ras-peer-dead",
        literal="as DEAD",
        expression=r"declaring peer (?P<peer>\S+) as DEAD",
        samples=("RAS declaring peer 10.0.0.3<4231> as DEAD",),
    ),
)
