"""Words of public software: what a share-safe report may show, as they name no machine, person, job or place of a site.

A word of a log is known by what it is made of: words that programs of the field use (``public_words.txt``), words that
this package says itself, or a form that is alike everywhere, such as a device's name, a type, a version or an
identifier of NCCL. All else may be the name of a host, a user, a pod or a job, wherever it stands.

``public_words.txt`` holds the words that text and identifiers of Python's standard library, PyTorch, Ray, NCCL and of
some twenty other packages have in common, without first names, and without what machines are often called after.
"""

import errno
import os
import re
import signal
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OF_APIS = re.compile(  # identifiers of libraries, whatever else they are made of
    r"_*(?:(?:p?nccl|rccl|cuda|cudnn|cublas|hip|hsa|nvml|cu|ibv?|Mlx5?)[A-Z_]|mlx[45](?:dv)?_[a-z]|(?:NCCL|RCCL|CUDA|HIP|"
    r"NVTE|TORCH|PYTORCH|HYDU?|GLIBC|OMPI|OPAL|PRTE|PMIX|PMI|MPIR?|UC[XCTPS]|SLURM|NVSHMEM|IBV|IB|RDMA|GDR|RAY|HF|VLLM|FI|PSM[23]?|"
    r"SHARP|HCOLL?|OMP|KUBERNETES|XLA|CU|NV|SIG|E|WNOHANG|SO|AF|TCP|EPOLL|POLL)_|uc[xctps]_|rdma_|ibv_|umad_|fi_|"
    r"psm[23]?_|sharp_|SIG[A-Z]|_Z(?:N|\d)|at_|c10d?_|gomp_|pthread_|mpi_|hwloc_|json_)\w*"
)
_STEMS = (  # what is numbered alike everywhere; a node, a worker or a GPU in small letters may be a host
    r"(?:rank|step|epoch|stage|level|layer|iter|iteration|phase|part|shard|chunk|block|ring|tree|channel|dim|arg|line|"
    r"page|version|thread|stream|try|attempt|error|status|code|signal|exit|val|lane|cuda|rev|task|frame|zero|opt|"
    r"tp|pp|dp|cp|ep|pg|qp|py|pid|tid|qpn|mtu|v|ch|port|nic|hca|sock|i|k)"
)
_TYPES = (
    r"(?i:(?:u?int|b?float|bf|fp|complex)(?:\d|1[26]|32|64|128)(?:_t)?|[fiu](?:8|16|32|64)|tf32|nf4|e\dm\d\w{0,4}|"
    r"utf_?\d{1,2}|sha\d{1,3}|base64|md5|log(?:2|10|1p)|exp2|rfc\d{1,5}|ipv[46]|python[23]|http2|s3|ec2|p[3-6](?:dn|de?|en?)?|k8s|x86|x86_64|"
    r"i[36]86|amd64|aarch64|arm64|ppc64(?:le)?|c10d?|p2p|[hd]2[hd]|e2e|[123]d|l[123]|o[0-3]|ll128|w\da\d{1,2}|b64|"
    r"x(?:1|4|8|16)|(?:a|b|h|v|mi)\d00[a-z]?|l40s?|t4|gb200|gh200|bz2|lz4|crc32\w?|mlx[45]|c2c|psm[23]|p2pdma|"
    r"\d{1,4}(?:[GMT]i?B|bit|way|byte|b|k))"
)
_FORMS = (
    # devices, interfaces and their drivers
    (
        r"(?:mlx[45]?(?:_core|_ib|_en|_bond)?|bnxt_(?:re|en)|irdma|i40iw|i40e|hfi1|qedr|cxgb4|efa|mana|ionic|hns|erdma|"
        r"siw|rxe|rocep?|roceP|rdma|rdmap|ibp|ocrdma|cxi|hsn|ens?|enp|enP|eno|eth|ib|bond|br|docker|veth|wlan|wlp|vlan|"
        r"lo|tun|tap|virbr|ipvlan|net|rail|usb)(?=\w*\d)[\dspfnvdPi_]*\d"
    ),
    r"mlx[45]|hfi1|(?:renderD|nvidia|nvme|loop|dm|shm|nvswitch|uverbs|issm|umad|ttyS?)-?\d+(?:n\d+)?(?:p\d+)?",
    # numbers: of base 16, of a bus, with a unit, of a version, of a time
    r"0[xX][0-9a-fA-F]*|\d[\da-fA-F]{0,7}|\d[\d_]*[A-Za-z]{1,3}(?:ps)?",
    r"[vV]?\d+(?:-\d+)*(?:(?:a|b|rc|post|dev|beta|alpha|preview|el)\d*)*",
    r"(?:cu|cuda|rocm|py|cp|cpython|gfx|gcc-?|hip|nccl|rccl|ompi|ucx|lib[a-z]{1,20}|sm_?|compute_)\d[\da-f]*[a-z]?",
    r"\d{4}-\d\d-\d\dT\d\d|\d\dT\d\d|[EIWF]\d{4}|\d{8}T\d{6}Z?|\d+Z|git[0-9a-f]{7,40}",
    # in capitals: models of GPUs, machines and links, and what a topology numbers
    r"(?:[ABHLVTPK]|GH|GB|MI|RTX|HBM|SXM|DGX|HGX|NVL|NVLS|PCIE|Gen|CX|[HNXEFQ]DR)\d{1,4}[A-Za-z]?",
    r"E810|HCA-\d|nvidia-nvswitch\d{1,2}|\d+(?:x\d+)+|Thread-\d{1,5}|mat[12]|(?:\d{1,3}h)?\d{1,3}m\d{1,2}s",
    r"x86_64-linux-gnu|(?:GPU|CPU|NET|NIC|PCI|NVL|NUMA|HCA|RANK|Rank|CTX|QP|CQ|BAR|MEM|PE|PR|CP|DP|EP|TP|PP|ID)\d{1,4}",
    rf"{_STEMS}\d{{1,2}}|(?:[a-z]+_)?{_STEMS}[_-]\d{{1,6}}",
)
_FORM = re.compile("|".join((_TYPES, *_FORMS)))
_TYPE = re.compile(_TYPES)


@cache
def words() -> frozenset[str]:
    """Every known word, in small letters: those of public software, and those of this package's own text."""
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py")))
    own = (piece.lower() for piece in _PIECE.findall(text) if len(piece) > 1)
    system = " ".join((*map(os.strerror, errno.errorcode), *(signal.strsignal(one) or "" for one in signal.Signals)))
    public = (_PACKAGE / "public_words.txt").read_text(encoding="utf-8").split()
    return frozenset((*own, *_PIECE.findall(system.lower()), *public))


def is_known(word: str) -> bool:
    """Whether a word without dots, such as ``ncclInternalError`` or ``out-of-memory``, names nothing of a site."""
    bare = word.strip("_-")
    if not any(character.isalpha() for character in bare) or _FORM.fullmatch(bare) or _OF_APIS.fullmatch(word):
        return True
    pieces = re.split(r"[_-]+", bare)
    dashed = "-" in bare
    return all(_is_known_piece(piece, dashed=dashed) for piece in pieces)


def _is_known_piece(piece: str, *, dashed: bool) -> bool:
    """One of the parts that dashes or underscores join. A number or a letter behind a dash tells machines apart."""
    if piece.isdigit() or len(piece) == 1:
        return not dashed and not piece.isdigit()
    if piece.isalpha():
        return piece.lower() in words() or all(one.lower() in words() for one in _letters(piece))
    if (_TYPE if dashed and not piece[0].isupper() else _FORM).fullmatch(piece):
        return True
    inner = re.fullmatch(r"([A-Za-z]+)\d([A-Za-z]+)", piece)  # "init2rtr"
    return inner is not None and not dashed and all(_is_known_piece(one, dashed=False) for one in inner.groups())


def _letters(piece: str) -> list[str]:
    """The words that are written together, as in ``DistBackendError`` or ``GPUs``; what belongs to none is one too."""
    found = _PIECE.findall(piece)
    whole = sum(map(len, found)) == len(piece)
    return [one for one in found if len(one) > 1] if whole else [piece]
