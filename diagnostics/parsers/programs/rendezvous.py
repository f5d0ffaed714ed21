"""How ranks meet before NCCL starts, and how that fails: PyTorch's store and elastic agents, JAX, MindSpore, Gloo.

What is printed at level W is tried again, so it counts only where nothing follows it.
"""

from diagnostics.parsers.programs.rows import rows

_ABSENT = (
    (
        "clients joined",
        r"waiting for clients\. (?P<came>\d+)/(?P<of>\d+) clients joined",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined.",
    ),
    (
        "store based barrier",
        r"process group in store based barrier.*world_size=(?P<of>\d+), worker_count=(?P<came>\d+)",
        "Timed out initializing process group in store based barrier on rank: 3 (world_size=8, worker_count=7)",
    ),
    (
        "RendezvousTimeoutError",
        r"(?P<text>RendezvousTimeoutError)",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    ),
)
_WAITS = (
    (
        "store based barrier",
        r"Waiting in store based barrier .*rank: (?P<rank>\d+), .*\(world_size=(?P<of>\d+), worker_count=(?P<came>\d+)",
        "Waiting in store based barrier to initialize process group for rank: 0, key:1 (world_size=8, worker_count=7,",
    ),
)
_CAME = (
    (
        "store-based barrier",
        r"Completed store-based barrier for key",
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.",
    ),
)
_PMIX = (
    (
        "pmixp_",
        r"(?P<text>pmixp_\w+: .*\bcollective timeout.*)",
        "slurmstepd: error:  mpi/pmix_v3: pmixp_coll_ring_reset_if_to: n1 [0]: 0x14c: collective timeout seq=0",
    ),
)
_CLIQUES = (  # of XLA, before NCCL starts
    (
        "This thread has been waiting for",
        r"(?P<text>This thread has been waiting for `(?:initialize|acquire) clique.* may be stuck.*)",
        "This thread has been waiting for `initialize clique for rank 6; stream=0` for 10 seconds and may be stuck.",
    ),
)
_UNSTUCK = (("Thread is unstuck", r"Thread is unstuck", "E rendezvous.cc:47] Thread is unstuck! Warning above was a"),)
_STORE = (
    (
        "connectFullMesh failed",
        r"Gloo connectFullMesh failed with (?P<reason>.*)",
        "[rank8]:[E ProcessGroupGloo.cpp:144] Gloo connectFullMesh failed with [tcp/pair.cc:144] no error",
    ),
    (
        "client socket has",
        r"(?:Error|Exception): .*?The client socket has (?P<reason>.*)",
        "RuntimeError: [c10d] The client socket has timed out after 600s while trying to connect to (10.0.0.1, 29500).",
    ),
    (
        "server socket has",
        r"(?:Error|Exception): .*?The server socket has (?P<reason>.*)",
        "DistNetworkError: The server socket has failed to listen on any local network address. port: 29500",
    ),
    (
        "socket has",  # at level E no further address is tried; what is tried again is a W
        r"\[E[^\]]*socket\.cpp:\d+\] (?:\[c10d\] )?The (?:client|server) socket has (?P<reason>.*)",
        "[E socket.cpp:753] [c10d] The client socket has failed to connect to any network address of (node1, 29500).",
    ),
)
_SECONDS = r"(?P<text>(?:wait timeout after \d+ ?ms|Wait timeout|Timed out after \d+ ?(?:ms|seconds?) waiting for).*)"
_WAITED = (
    (
        "ocket Timeout",
        r"(?:Error|error): (?P<text>Socket Timeout.*)",
        "RuntimeError: Socket Timeout",
    ),
    ("wait timeout after", rf"(?:Error|error): {_SECONDS}", "DistStoreError: wait timeout after 300000ms, keys: /0"),
    ("Wait timeout", r"(?:Error|error): (?P<text>Wait timeout)\s*$", "RuntimeError: Wait timeout"),
    (
        "Barrier timed out",
        r"(?P<text>Barrier timed out\. .*(?:register|Init|[Ss]tart|Connect).*)",
        "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens",
    ),
    (
        "GetKeyValue() timed out",
        r"(?P<text>GetKeyValue\(\) timed out.*)",
        "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cuda:0,1 and duration: 10m",
    ),
    (
        "Timed out waiting for clients",
        r"(?P<text>Timed out waiting for clients.*)",
        "TimeoutError: Timed out waiting for clients 1/2 to join the key-value store",
    ),
    (
        "RendezvousClosedError",
        r"(?P<text>^(?:\S+\.)?RendezvousClosedError)",
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
    ),
)
_REFUSED = (
    (
        "connect to the scheduler",
        r"(?:Error|ERROR).*?(?P<reason>Failed to connect to the (?:scheduler|meta server).*)",
        "RuntimeError: Failed to connect to the scheduler.",
    ),
    (
        "meta server node",
        r"(?P<reason>Failed to connect to the meta server node .*)",
        "[ERROR] DISTRIBUTED(11,7f,python):x] Register] Failed to connect to the meta server node url: 10.1.1.1:8118",
    ),
    (
        " store has failed",
        r"RendezvousConnectionError: (?P<reason>The connection to the \w+ store has failed)",
        "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
    ),
    (
        "timed out. Original timeout was",
        r"(?:Error|Exception): (?P<reason>connect\(\) timed out.*)",
        "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
    ),
    (  # one that is reset may be a transfer's
        "RuntimeError: Connection re",
        r"RuntimeError: (?P<reason>Connection refused)\s*$",
        "RuntimeError: Connection refused",
    ),
    (
        "ddress already in use",
        r"(?:Error|error|EADDRINUSE).*?(?P<reason>[Aa]ddress already in use)",
        "RuntimeError: Address already in use",
    ),
    (
        "gloo/transport/tcp",
        r"gloo/transport/tcp/\S+\] connect \[(?P<peer>[^\]]+)\]:\d+: (?P<reason>.*)",
        "RuntimeError: [/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:12345: Connection refused",
    ),
    (
        "gloo/transport/tcp",
        r"gloo/transport/tcp/\S+\] (?P<reason>Connect timeout) ?\[(?P<peer>[^\]]+)\]",
        "RuntimeError: [/gloo/transport/tcp/pair.cc:598] Connect timeout [10.0.0.1]:12345",
    ),
    (
        "gloo/transport/tcp",
        r"gloo/transport/tcp/\S+\] (?P<reason>(?:connect\b(?! \[)|SO_ERROR).*?)(?:, remote=\[(?P<peer>[^\]]+)\].*)?$",
        "[enforce fail at /gloo/transport/tcp/pair.cc:2] connect timeout: SO_ERROR: Connection refused, remote=[n2]:3",
    ),
    (
        "connect/validate to host",
        r"TCP client failed to connect/validate to host \S+ - (?P<reason>timed out).*",
        "[c10d] TCP client failed to connect/validate to host 10.0.0.1:29500 - timed out (try=1, timeout=60000ms): x",
    ),
    (
        "bootstrap the communication group",
        r"Failed to bootstrap the communication group\W*(?:system error:)?(?P<reason>.*)",
        "- [comm.cc:100]: Failed to bootstrap the communication group. system error:Connection refused",
    ),
    (
        "failed to connect to all addresses",
        r"(?:Error|ERROR|UNAVAILABLE).*?(?P<reason>failed to connect to all addresses.*)",
        "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1234: Connection refused",
    ),
    (  # Open MPI
        "Message:  ",
        r"Message: +(?P<reason>connect\(\) to (?P<peer>\S+):\d+ failed)",
        "  Message:    connect() to 10.10.10.2:1024 failed",
    ),
    (
        "EtcdConnectionFailed",
        r"(?P<reason>EtcdConnectionFailed.*)",
        "etcd.EtcdConnectionFailed: Connection to etcd failed due to MaxRetryError",
    ),
)
_TRIED = (  # at level W, and names of the second family only: that of the first often has no answer
    (
        "socket has failed to connect",
        r"\[W[^\]]*socket\.cpp:\d+\] (?:\[c10d\] )?The client socket has (?P<reason>failed to connect to .*)",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 113 - No route).",
    ),
    (
        "connect/validate to host",
        r"TCP client failed to connect/validate to host \S+ - retrying \(try=(?P<tries>\d+).*?\): (?P<reason>.+)",
        "TCP client failed to connect/validate to host n1:29500 - retrying (try=6, timeout=9ms): Connection reset",
    ),
    (
        "connect addr=",
        r"connect addr=\S+ failed \d+ times with reason: (?P<reason>.*?)(?: retry after .*)?$",
        "gen_comm_id_helper.cc:120] connect addr=10.0.0.1:6170 failed 5 times with reason: Connection refused retry",
    ),
    (
        "cannot be retrieved (gai",
        r"The IPv4 network addresses of (?P<reason>.* cannot be retrieved \(gai error: .*)",
        "[W socket.cpp:697] [c10d] The IPv4 network addresses of (n0, 23456) cannot be retrieved (gai error: -3 - x).",
    ),
)
_UNNAMED = tuple(
    (
        literal,
        rf"^(?!.*\[W)(?=.*(?:[Ee]rror|ERROR|ssh:|getaddrinfo|[Cc]ould not resolve)).*?(?P<reason>{expression}.*)",
        sample,
    )
    for literal, expression, sample in (
        (
            "ame or service not known",
            r"[Nn]ame or service not known",
            "ValueError: host not found: Name or service not known",
        ),
        (
            "emporary failure in name resolution",
            r"[Tt]emporary failure in name resolution",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        ),
        (
            "No address associated with hostname",
            r"No address associated with hostname",
            "socket.gaierror: [Errno -5] No address associated with hostname",
        ),
    )
)
_LEFT = (
    (
        "on TCPStore, (maybe",
        r"(?P<text>Failed to check the \"should dump\" flag on TCPStore.*)",
        'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with',
    ),
    (
        "exception dump flag from",
        r"(?P<text>Failed to get exception dump flag from the global store.*)",
        "[PG 0 Rank 1] Failed to get exception dump flag from the global store.Connection reset by peer",
    ),
    (
        "failed on SocketImpl(",
        r"(?P<text>(?:sendBytes|recvValue|recvBytes|recvVector) failed on SocketImpl\(.*)",
        "[c10d] sendBytes failed on SocketImpl(fd=84, addr=[node1]:44410, remote=[node0]:29500): Broken pipe",
    ),
    (
        "RPC agent for ",
        r"(?P<text>RPC agent for \S+ encountered error when .*)",
        "[W tensorpipe_agent.cpp:726] RPC agent for 0 encountered error when reading incoming request from 27: sendmsg",
    ),
    (
        "has failed to send a keep-alive",
        r"(?P<text>The node '[^']+' has failed to send a keep-alive heartbeat to the rendezvous .*)",
        "[WARNING] The node 'n1_22_0' has failed to send a keep-alive heartbeat to the rendezvous '1' due to an error",
    ),
)

PATTERNS = (
    *rows("ranks-missing", _ABSENT, _WAITED, _PMIX),
    *rows("clique-awaited", _CLIQUES),
    *rows("clique-came", _UNSTUCK),
    *rows("ranks-awaited", _WAITS),
    *rows("ranks-came", _CAME),
    *rows("store-failed", _STORE, _REFUSED, _UNNAMED),
    *rows("store-tried", _TRIED),
    *rows("store-left", _LEFT),
)
