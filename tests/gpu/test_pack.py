"""What a machine without internet lacks is found, cut to pieces that can be carried, and put together there whole."""

import json
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.gpu.install import MANIFEST, install
from tests.gpu.install import main as install_main
from tests.gpu.pack import ROOT, Target, cut, needed, own_requirements, present_of, versions_of

THERE = Target(python="3.12", arch="x86_64", present={})


def wheel(folder: Path, name: str, filling: int = 0) -> Path:
    """A wheel with one module, and so many bytes beside it."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", "ANSWER = 42\n")
        file.writestr(f"{name}_data.bin", bytes(range(256)) * (filling // 256))
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def test_long_wheels_are_cut_and_every_piece_is_within_its_size(tmp_path: Path) -> None:
    wheels = [wheel(tmp_path, "long_one", 100_000), wheel(tmp_path, "short_one"), wheel(tmp_path, "other_one")]
    pieces = cut(wheels, tmp_path / "pieces", 40_000)
    sizes = [sum(path.stat().st_size for path in piece.iterdir()) for piece in pieces]
    assert len(pieces) >= 3
    assert max(sizes) <= 40_000
    assert all((piece / MANIFEST).exists() for piece in pieces)
    assert sum((piece / "short_one-1.0-py3-none-any.whl").exists() for piece in pieces) == 1


def test_pieces_in_any_order_and_many_calls_are_joined_and_installed_without_an_index(tmp_path: Path) -> None:
    pieces = cut([wheel(tmp_path, "long_one", 100_000), wheel(tmp_path, "short_one")], tmp_path / "pieces", 40_000)
    there = tmp_path / "there"
    for piece in pieces[:0:-1]:
        assert install([piece], there) == 3, "the last has not come"
    assert not (there / "site").exists()
    assert install([pieces[0]], there) == 0
    code = "import long_one, short_one; print(long_one.ANSWER + short_one.ANSWER)"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(there / 'site')!r}); {code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "84\n"


def test_a_piece_that_is_damaged_is_named_and_asked_for_again(tmp_path: Path, capsys: object) -> None:
    pieces = cut([wheel(tmp_path, "long_one", 100_000)], tmp_path / "pieces", 40_000)
    hurt = next(path for path in pieces[0].iterdir() if path.name != MANIFEST)
    whole = hurt.read_bytes()
    hurt.write_bytes(b"\0" + whole[1:])
    there = tmp_path / "there"
    assert install(pieces, there) == 1
    assert "long_one-1.0-py3-none-any.whl is damaged" in capsys.readouterr().out
    assert not (there / "site").exists()
    hurt.write_bytes(whole)
    assert install(pieces[:1], there) == 3, "its other parts are not trusted either"


def test_what_is_there_is_not_packed_and_torch_never_is() -> None:
    everything = needed(THERE)
    assert {"ray", "msgspec", "hyperscan", "bitsandbytes", "zstandard", "jsonschema", "rich"} <= set(everything)
    assert not {"torch", "sympy", "jinja2", "raybench"} & set(everything), "torch and what it brings are the machine's"
    less = needed(Target(python="3.12", arch="x86_64", present=present_of("rich==14.0\nRay\nattrs, click")))
    assert set(everything) - set(less) >= {"rich", "ray", "click"}
    assert "rpds-py" not in less, "what only a package that is there needs is there"
    old = needed(Target(python="3.12", arch="x86_64", present=present_of("rich==13.0\npsutil==7.0.0")))
    assert ("rich" in old, "psutil" in old) == (True, False), "what is there and too old is packed"


def test_wheels_for_another_python_are_refused_before_pip_sees_them(tmp_path: Path, capsys: object) -> None:
    here = ".".join(platform.python_version_tuple()[:2])
    for python, code in (("2.7", 2), (here, 0)):
        (piece,) = cut([wheel(tmp_path, "short_one")], tmp_path / python, 40_000, python=python)
        assert install([piece], tmp_path / f"there-{python}") == code
    assert f"for Python 2.7, and this is {here}" in capsys.readouterr().out


def test_wheels_of_an_earlier_pack_are_not_installed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    (first,) = cut([wheel(tmp_path, "first_one")], tmp_path / "first", 40_000)
    (second,) = cut([wheel(tmp_path, "second_one")], tmp_path / "second", 40_000)
    assert install([first], there) == 0
    (there / "wheels/first_one-1.0-py3-none-any.whl").write_bytes(b"no wheel: pip would refuse it")
    assert install([second], there) == 0


def test_a_folder_that_is_not_there_is_invalid_usage(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        install_main([str(tmp_path / "piece-1"), "--to", str(tmp_path / "there")])


def test_requirements_are_those_of_the_other_machine() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    newer = Target(python="3.15", arch="x86_64", present={})
    assert "hyperscan" in {one.name for one in own_requirements(project, (), THERE)}
    assert "hyperscan" not in {one.name for one in own_requirements(project, (), newer)}


def test_versions_are_the_pinned_ones() -> None:
    constraints = 'core==2.19.14; python_version < "3.12"\ncore==2.21.5; python_version >= "3.12"\n# x\nray==2.60.0\n'
    assert versions_of(constraints, THERE) == {"core": "==2.21.5", "ray": "==2.60.0"}
    pinned = versions_of((ROOT / "constraints.txt").read_text(), THERE)
    assert Requirement(f"ray{pinned['ray']}").specifier


def test_the_manifest_names_every_wheel_with_its_sum(tmp_path: Path) -> None:
    (piece,) = cut([wheel(tmp_path, "short_one")], tmp_path / "pieces", 40_000)
    (entry,) = json.loads((piece / MANIFEST).read_text())["wheels"]
    assert entry["parts"] == [entry["name"]]
    assert len(entry["sha256"]) == 64
