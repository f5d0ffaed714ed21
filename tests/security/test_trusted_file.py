"""Which files may name a cluster: every way in which somebody else could have written what they say is refused."""

import errno
import grp
import os
import pwd
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.documents.study.plan import Study, Variant, VariantFacts
from raybench.errors import ClusterUnavailableError, UsageError
from raybench.execution.ranks import rank_host_process
from raybench.execution.ranks.rank_host_process import short_folder
from raybench.execution.ray_cluster.found_cluster import find_running
from raybench.hosts import own_cluster
from raybench.processes.listener import foreign_listener
from raybench.processes.trusted_file import UntrustedFileError, read_trusted
from raybench.studies.folder import StudyFolder

from .ordinary_user import USER_ID, acting, given, needs_root

LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=family == socket.AF_INET6)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that names a cluster, below a folder as /tmp is."""
    shared = tmp_path / "shared"
    folder = shared / "ray"
    folder.mkdir(parents=True, mode=0o755)
    shared.chmod(0o1777)
    path = folder / "ray_current_cluster"
    path.write_text("127.0.0.1:6379")
    return path


def refused(path: Path) -> str:
    with pytest.raises(UntrustedFileError) as caught:
        read_trusted(path)
    return str(caught.value)


def test_an_own_file_below_a_folder_as_tmp_is_read(file: Path) -> None:
    assert read_trusted(file) == b"127.0.0.1:6379"
    assert read_trusted(file.with_name("none")) is None
    assert read_trusted(file / "below a file") is None


def test_own_links_are_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "absolute").symlink_to(file)
    (tmp_path / "relative").symlink_to("shared/../shared/ray")
    assert read_trusted(tmp_path / "absolute") == b"127.0.0.1:6379"
    assert read_trusted(tmp_path / "relative" / file.name) == b"127.0.0.1:6379"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_trusted(tmp_path / "round")


@pytest.mark.parametrize(("place", "mode"), [("file", 0o666), ("folder", 0o777), ("above", 0o777)])
def test_what_others_can_write_is_refused(file: Path, place: str, mode: int) -> None:
    changed = {"file": file, "folder": file.parent, "above": file.parent.parent}[place]
    changed.chmod(mode)
    said = refused(file)
    assert f"{changed} of " in said
    assert f"can be written by others (mode 0{mode:o})" in said


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "is not a regular file" in refused(tmp_path / "fifo")


@needs_root
@pytest.mark.parametrize("place", ["file", "folder", "above"])
def test_what_belongs_to_somebody_else_is_refused(file: Path, place: str) -> None:
    changed = given({"file": file, "folder": file.parent, "above": file.parent.parent}[place])
    assert refused(file) == f"{changed} belongs to uid {USER_ID}"


@needs_root
def test_links_of_somebody_else_are_refused_even_to_own_files(file: Path, tmp_path: Path) -> None:
    link = file.parent.parent / "link"
    link.symlink_to(file.parent)
    given(link)
    assert refused(link / file.name) == f"{link} belongs to uid {USER_ID}"


@needs_root
def test_an_own_link_to_what_somebody_else_has_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "own").symlink_to(given(file))
    assert "belongs to" in refused(tmp_path / "own")


@needs_root
def test_a_group_of_several_is_others(file: Path) -> None:
    os.chown(file.parent, 0, USER_ID)
    file.parent.chmod(0o775)
    assert "can be written by others (mode 0775)" in refused(file)


def let_write(path: Path, user: int) -> None:
    """As ``setfacl -m u:USER:rw``: the layout is that of linux/posix_acl_xattr.h; the last id is nobody's."""
    entries = ((0x01, 7, -1), (0x02, 6, user), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1))
    try:
        os.setxattr(
            path, "system.posix_acl_access", b"\2\0\0\0" + b"".join(struct.pack("<HHi", *one) for one in entries)
        )
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("the file system of temporary folders has no access lists")


@pytest.mark.parametrize("place", ["file", "folder", "above"])
def test_an_access_list_names_others(file: Path, place: str) -> None:
    changed = {"file": file, "folder": file.parent, "above": file.parent.parent}[place]
    if place == "above":
        changed.chmod(0o755)  # without the sticky bit
    let_write(changed, USER_ID)
    assert f"{changed} of " in refused(file)


def test_an_own_group_is_nobody_else(file: Path) -> None:
    """Near miss: the same bits without an access list, as umask 002 leaves them."""
    group = grp.getgrgid(os.getegid())
    if len({*group.gr_mem, *(one.pw_name for one in pwd.getpwall() if one.pw_gid == group.gr_gid)}) > 1:
        pytest.skip(f"the group {group.gr_name} has several members here")
    file.chmod(0o664)
    assert read_trusted(file) == b"127.0.0.1:6379"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which Ray leaves its address."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(own_cluster, "node_folder", lambda: tmp_path / "node")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray"


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_cluster_that_others_can_have_named_is_refused_with_a_way_out(temporary: Path, port: int) -> None:
    (temporary / "ray_current_cluster").write_text(f"127.0.0.1:{port}")
    temporary.chmod(0o777)
    with pytest.raises(ClusterUnavailableError, match=rf"{temporary} of .* can be written by others .*--address HOST:"):
        find_running()


def test_what_an_ended_cluster_left_in_such_a_folder_is_in_nobodys_way(temporary: Path, port: int) -> None:
    (temporary / "ray_current_cluster").write_text("127.0.0.1:1")
    temporary.chmod(0o777)
    assert find_running() is None


def test_the_folder_that_ray_is_told_is_looked_into(
    temporary: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other" / "ray").mkdir(parents=True)
    (tmp_path / "other" / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{port}\n")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "other"))
    found = find_running()
    assert found is not None
    assert found.address == f"127.0.0.1:{port}"


@pytest.mark.parametrize("content", ["", "not an address", "127.0.0.1:99 --x", "a\x1b[2J:1", "x" * 10**5])
def test_a_file_that_names_nothing_is_no_cluster(temporary: Path, content: str) -> None:
    (temporary / "ray_current_cluster").write_text(content)
    assert find_running() is None


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_port_that_somebody_else_took_over_is_refused(temporary: Path, host: str) -> None:
    """The file of a cluster that was killed stays, and points at a port that anybody can have by then."""
    with acting(LISTEN, host) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert foreign_listener(f"127.0.0.1:{port}") == USER_ID
        assert foreign_listener(f"localhost:{port}") == USER_ID
        (temporary / "ray_current_cluster").write_text(f"127.0.0.1:{port}")
        with pytest.raises(ClusterUnavailableError, match=f"what listens there belongs to uid {USER_ID}"):
            find_running()


def test_an_own_port_and_one_elsewhere_are_nobody_elses(port: int) -> None:
    assert foreign_listener(f"127.0.0.1:{port}") is None
    assert foreign_listener("192.0.2.77:6379") is None
    assert foreign_listener("no-such-host.invalid:6379") is None


def test_the_folder_of_a_run_is_where_nobody_can_exchange_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, fallback = (Path(tempfile.mkdtemp(prefix="t-", dir="/tmp")) for _ in range(2))
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(base))
        monkeypatch.setattr(rank_host_process, "_TMP", str(fallback))
        assert short_folder().parent == base
        base.chmod(0o777)
        assert short_folder().parent == fallback
        base.chmod(0o1777)
        assert short_folder().parent == base
        base.chmod(0o777)
        fallback.chmod(0o777)  # as in a container whose folders are nobody's
        assert short_folder().parent == base
    finally:
        for folder in (base, fallback):
            shutil.rmtree(folder)


def study_of(folder: Path) -> StudyFolder:
    variants = (Variant(name="1", facts=VariantFacts(nodes=1, modes=("weak",))),)
    found = StudyFolder(path=folder)
    found.write_plan(Study(kind="scaling", workload=("train",), variants=variants, repeats=1, seed=7))
    return found


def test_a_study_that_others_can_have_planned_is_shown_and_not_run(tmp_path: Path) -> None:
    """What its plan says becomes commands of this user: ``configure -i INVENTORY --yes`` would be one."""
    folder = study_of(tmp_path)
    assert folder.study(to_run=True).workload == ("train",)
    tmp_path.chmod(0o777)  # a folder that a group shares is no hindrance: nobody else can own the plan
    assert folder.study(to_run=True).workload == ("train",)
    (tmp_path / "plan.json").chmod(0o666)
    with pytest.raises(UsageError, match=r"can be written by others .*raybench study show"):
        folder.study(to_run=True)
    assert folder.study().workload == ("train",)


@needs_root
def test_a_study_of_somebody_else_is_not_run(tmp_path: Path) -> None:
    folder = study_of(tmp_path)
    given(tmp_path / "plan.json")
    with pytest.raises(UsageError, match=f"belongs to uid {USER_ID}"):
        folder.study(to_run=True)


def test_a_plan_that_is_a_link_or_not_there_is_one_clear_line(tmp_path: Path) -> None:
    folder = study_of(tmp_path)
    (tmp_path / "plan.json").rename(tmp_path / "other.json")
    (tmp_path / "plan.json").symlink_to("other.json")
    with pytest.raises(UsageError, match="cannot be read: Too many levels of symbolic links"):
        folder.study(to_run=True)
