"""Calls of verbs, statuses and events beyond those of nics.py: which error it was decides what is said."""

from collections.abc import Mapping

from tests.lab.nccl.scenario import GPUDIRECT, IB, PLAY, ROCE, Scenario, Steps, Verdict, machine

_WATCH: Steps = ("init", "allreduce", "sleep=2.5", "meet")


def _fault(call: str) -> Mapping[str, str]:
    return {**GPUDIRECT, "FAKEIB_FAULT": call}


def _call(name: str, call: str, broken: str, verdict: Verdict, *, roce: bool = False, proof: str = "") -> Scenario:
    """A call that fails on every node."""
    hardware = ROCE if roce else IB
    return Scenario(
        name=name, broken=broken, verdict=verdict, hardware=hardware, environment=_fault(call), proof=proof, daily=False
    )


def _completion(name: str, status: int, broken: str, top: str, *, roce: bool = False) -> Scenario:
    """The first completion is bad, on every node."""
    return Scenario(
        name=name,
        broken=broken,
        verdict=Verdict(top=top, network="roce" if roce else "ib"),
        hardware=ROCE if roce else IB,
        environment={**PLAY, **_fault(f"completion:1={status}")},
        since=(2, 21, 0),
        seconds=10,
        proof="Got completion",
        daily=False,
    )


def _event(name: str, number: int, broken: str, verdict: Verdict) -> Scenario:
    """An asynchronous event after a second."""
    return Scenario(
        name=name,
        broken=broken,
        verdict=verdict,
        hardware=IB,
        environment={**GPUDIRECT, "FAKEIB_EVENT": f"1={number}"},
        steps=_WATCH,
        proof="event",
        daily=False,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _call(
        "ib-init-invalid",
        "modify_qp.INIT:1=22",
        "ibv_modify_qp to INIT gives EINVAL, as for a partition key that is not there",
        Verdict(top="ib-connect-failed", network="ib"),
        proof="ibv_modify_qp",
    ),
    _call(
        "roce-rtr-no-host",
        "modify_qp.RTR:1=113",
        "ibv_modify_qp to RTR gives EHOSTUNREACH: nobody answers for the peer's address",
        Verdict(top="ib-connect-failed", network="roce"),
        roce=True,
        proof="No route to host",
    ),
    _call(
        "ib-create-qp-invalid",
        "create_qp:1=22",
        "ibv_create_qp gives EINVAL: no limit of memory",
        Verdict(top="ib-connect-failed", network="ib", never=("memlock-limit",)),
        proof="Invalid argument",
    ),
    _call(
        "ib-reg-permission",
        "reg_mr:3=1",
        "ibv_reg_mr gives EPERM",
        Verdict(top="memory-registration-failed", network="ib", never=("memlock-limit",)),
        proof="ibv_reg_mr",
    ),
    _call(
        "ib-gid-unreadable",
        "query_gid:1=22",
        "ibv_query_gid gives EINVAL",
        Verdict(top="ib-connect-failed", network="roce"),
        roce=True,
        proof="ibv_query_gid",
    ),
    _call(
        "ib-pd-no-memory",
        "alloc_pd:1=12",
        "ibv_alloc_pd gives ENOMEM",
        Verdict(top="memlock-limit", network="ib"),
        proof="annot allocate memory",
    ),
    _completion(
        "ib-flushed",
        5,
        "the first completion is status 5: the queue pair was flushed, for whatever reason",
        "peer-died",
    ),
    _completion(
        "ib-receiver-not-ready",
        13,
        "the first completion is status 13: the receiver was never ready",
        "ib-retry-exceeded",
    ),
    _completion(
        "ib-remote-invalid", 9, "the first completion is status 9, a remote invalid request", "ib-protection-error"
    ),
    _completion(
        "roce-remote-operation",
        11,
        "the first completion is status 11, a remote operation error",
        "ib-protection-error",
        roce=True,
    ),
    Scenario(
        name="ib-post-send-refused",
        broken="ibv_post_send gives ENOMEM: the send queue is full",
        verdict=Verdict(top="ib-connect-failed", network="ib", never=("gpu-out-of-memory",)),
        hardware=IB,
        environment={**PLAY, **_fault("post_send:1=12")},
        since=(2, 21, 0),
        seconds=10,
        proof="ibv_post_send",
        daily=False,
    ),
    _event(
        "ib-qp-access-event",
        3,
        "the NIC reports an access violation of a queue pair",
        Verdict(top="ib-async-event", network="ib"),
    ),
    _event(
        "ib-lid-change-event",
        11,
        "the port's LID changed, and the run goes on",
        Verdict(network="ib", gdr=True, also=("ib-async-event",)),
    ),
    _event(
        "ib-last-request-event",
        16,
        "nothing: a queue pair says that its last request was reached",
        Verdict(network="ib", gdr=True),
    ),
    Scenario(
        name="port-error-then-retries",
        broken="the port goes down after a second; what is sent then is never answered",
        verdict=Verdict(top="ib-port-down", also=("ib-retry-exceeded",), network="ib"),
        hardware=IB,
        environment={**PLAY, **_fault("completion:1=12"), "FAKEIB_EVENT": "1=10"},
        steps=("init", "sleep=2.5", "allreduce", "meet"),
        since=(2, 21, 0),
        seconds=12,
        proof="event(.|\n)*Got completion",
        daily=False,
    ),
    Scenario(
        name="third-of-four-has-no-nic",
        broken="the third of four nodes has no NIC",
        verdict=Verdict(top="ranks-disagree-on-transport", network="mixed"),
        nodes=4,
        hardware=IB,
        hardware_of={3: machine()},
        environment=GPUDIRECT,
        daily=False,
    ),
    Scenario(
        name="third-of-four-cannot-register",
        broken="the third of four nodes has the low limit of locked memory",
        verdict=Verdict(top="memlock-limit", network="ib"),
        nodes=4,
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={2: {"FAKEIB_FAULT": "reg_mr:2=12"}},
        proof="annot allocate memory",
        daily=False,
    ),
    Scenario(
        name="four-nodes-healthy",
        broken="nothing: four nodes over RoCE with GPUDirect RDMA",
        verdict=Verdict(network="roce", gdr=True, tcp_fallback=False),
        nodes=4,
        hardware=ROCE,
        environment=GPUDIRECT,
        proof="Init COMPLETE",
        daily=False,
    ),
)
