"""Help, vocabulary and completion of every command: one screen, one name for one thing, values in real shells."""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from raybench.cli import group
from raybench.cli.usage.command import TopicCommand, whole_help
from raybench.cli.usage.page import SCREEN_LINES
from raybench.cli.usage.topic import OLD_NAMES, OTHER, TOPICS, current_names, topic_of
from raybench.errors import UsageError
from tests.command import RAYBENCH

Found = tuple[click.Command, click.Context]


def every_command(command: click.Command = group, parent: click.Context | None = None) -> Iterator[Found]:
    """All commands that are no group, with a context of 80 columns."""
    context = click.Context(
        command,
        parent=parent,
        info_name=command.name if parent else "raybench",
        terminal_width=80,
        help_option_names=["-h", "--help"],  # a command keeps its help option as it was first asked for
    )
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        if (found := command.get_command(context, name)) is not None:
            found.name = name
            yield from every_command(found, context)


COMMANDS = {context.command_path: (command, context) for command, context in every_command()}
OPTIONS = [
    (path, option, (*option.opts, *option.secondary_opts))
    for path, (command, _) in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option) and option.opts != ["--help-all"]
]


@pytest.mark.parametrize("path", COMMANDS)
def test_a_help_is_one_screen_that_names_every_option(path: str) -> None:
    command, context = COMMANDS[path]
    assert isinstance(command, TopicCommand)
    shown, whole = command.get_help(context), whole_help(command, context)
    for text in (shown, whole):
        assert max(map(len, text.split("\n"))) <= 80
    assert len(shown.split("\n")) <= SCREEN_LINES
    assert ("--help-all" in shown) == (shown != whole), "what is left out is said"
    if command.epilog:
        assert "\nExamples:\n  " in shown
    for owner, option, names in OPTIONS:
        if owner == path:
            bare = next(name for name in current_names(names) if name.startswith("--"))
            assert re.search(rf"(?<![\w-]){bare}(?![\w-])", shown), "by name at the least"
            said = re.sub(r"\s+", "", (option.help or "").partition("[default")[0])
            assert said in re.sub(r"\s+", "", whole), "in full"


def test_a_help_that_does_not_fit_says_most_of_what_is_asked_first() -> None:
    command, context = COMMANDS["raybench train"]
    shown = command.get_help(context)
    assert re.search(r"^  -m, --model NAME +mlp, cnn, or a transformer  \[default: tiny\]$", shown, re.MULTILINE)
    assert re.search(r"^  and .*--optimizer", shown, re.MULTILINE)
    assert "--checkpoint-activations" not in shown, "an old name"


def test_help_all_has_everything() -> None:
    done = subprocess.run([*RAYBENCH, "train", "--help-all"], capture_output=True, text=True, check=True)
    assert "Rank" not in done.stderr
    assert "Compute activations again in the" in done.stdout
    assert done.stdout.count("raybench train") > 8


def test_a_name_means_the_same_everywhere() -> None:
    kinds: defaultdict[str, dict[tuple[object, ...], str]] = defaultdict(dict)
    short: defaultdict[str, set[str]] = defaultdict(set)
    for path, option, names in OPTIONS:
        current = current_names(names)
        assert topic_of(current) != OTHER, f"{path} {names} has no topic"
        for name in current:
            if name.startswith("--"):
                kinds[name][option.is_flag or option.flag_value is True, topic_of(current)] = path
            else:
                short[name].add(next(one for one in current if one.startswith("--")))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}
    two = {letter: names for letter, names in short.items() if len(names) > 1}
    assert two == {
        "-o": {"--output", "--op"},  # of nccl-tests in `raybench run`
        "-n": {"--iters", "--steps"},
        "-w": {"--warmup", "--warmup-steps"},
    }


def test_topics_name_each_option_once_and_none_that_is_gone() -> None:
    listed = [name for names in TOPICS.values() for name in names]
    assert len(listed) == len(set(listed))
    there = {name for _, _, names in OPTIONS for name in names}
    assert set(listed) - there == set()
    assert set(OLD_NAMES) - there == set()


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("estimate", "--hidden", "512"), ("hidden", 512)),
        (("estimate", "--accumulation", "4"), ("accumulation", 4)),
        (("memory", "--limit", "1G"), ("limit", "1G")),
        (("train", "--checkpoint-activations"), ("checkpoint_activations", True)),
        (("checkpoint", "--check", "/x"), ("check", "/x")),
        (("selftest", "--gpu"), ("gpu", True)),
        (("collect", "-i", "a,", "--timeout", "9"), ("timeout_seconds", 9.0)),
        (("configure", "--dry-run"), ("check", True)),
    ],
)
def test_an_old_name_is_taken_where_the_new_one_is(words: tuple[str, ...], value: tuple[str, object]) -> None:
    command, _ = COMMANDS[f"raybench {words[0]}"]
    assert command.make_context(words[0], list(words[1:])).params[value[0]] == value[1]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an inventory, a run and a study."""
    monkeypatch.chdir(tmp_path)
    for name, file in (("runs/20261121-01", "result.json"), ("runs/not-a-run", "x"), ("studies/s-1", "study.json")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / file).write_text("{}")
    (tmp_path / "hosts.yml").write_text("all:\n  children:\n    ray_head:\n      hosts:\n        gpu-[01:02]: {}\n")
    (tmp_path / "old.ini").write_text("[ray_workers]\nw1 ansible_host=1.2.3.4 # the first\n[all:vars]\nkey=5\n")
    return tmp_path


def completed(line: str) -> list[str]:
    """What click offers behind a line; its last word is incomplete."""
    *words, last = line.split(" ")
    return [one.value for one in ShellComplete(group, {}, "raybench", "X").get_completions(words, last)]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("tr", {"train"}, {"run"}),
        ("nodes ", {"list", "watch"}, {"run"}),
        ("train --mod", {"--model"}, {"--nodes"}),
        ("train --che", set(), {"--checkpoint-activations"}),
        ("train --model gpt2", {"gpt2", "gpt2-xl"}, {"mlp"}),
        ("diagnose --format ", {"json", "sarif"}, set()),
        ("run --suite all_reduce,all_", {"all_reduce,all_gather"}, {"all_reduce,all_reduce"}),
        ("estimate --node-type p5", {"p5.48xlarge"}, set()),
        ("estimate --gpu L4", {"L4", "L40S"}, {"A100"}),
        ("diagnose --explain gdr-m", {"gdr-missing"}, {"tcp-fallback"}),
        ("preflight --only gpu,host-mem", {"gpu,host-memlock"}, set()),
        ("study strategy --strategies ddp,fs", {"ddp,fsdp", "ddp,fsdp-grad-op"}, {"ddp,ddp"}),
        ("preflight --limit ", {"ray_head", "gpu-01", "gpu-02"}, {"w1"}),
        ("cluster up -i old.ini --limit ", {"ray_workers", "w1"}, {"gpu-01", "key=5", "key"}),
        ("cluster up -i a,b, --limit ", {"a", "b"}, {"gpu-01"}),
        ("cluster up -i /no/file --limit ", set(), {"gpu-01"}),
        ("show ", {"runs/20261121-01", "studies/s-1"}, {"runs/not-a-run"}),
        ("study network --resume studies/", {"studies/s-1"}, set()),
        ("run --op m", {"min", "max"}, {"sum"}),
    ],
)
def test_values_are_offered(line: str, offered: set[str], not_offered: set[str]) -> None:
    found = set(completed(line))
    assert offered <= found
    assert not not_offered & found
    if not offered:
        assert not found


_SHELLS = {
    "bash": 'source <(raybench completion bash); COMP_WORDS=(raybench train --model gpt2-x); COMP_CWORD=3; '
    '_raybench_completion raybench; echo "${COMPREPLY[@]}"',
    "zsh": "compdef() { :; }; compadd() { :; }; _describe() { print -rl -- ${completions_with_descriptions}; }; "
    "autoload -U compinit; source <(raybench completion zsh); words=(raybench nodes wat); CURRENT=3; "
    "_raybench_completion",
    "fish": "raybench completion fish | source; complete -C 'raybench train --model gpt2-x'",
}  # fmt: skip


@pytest.mark.parametrize("shell", _SHELLS)
def test_a_real_shell_completes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "raybench"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m raybench "$@"\n')
    script.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([shell, "-c", _SHELLS[shell]], capture_output=True, text=True, check=False, env=environment)
    assert ("watch" if shell == "zsh" else "gpt2-xl") in done.stdout, done.stderr


def test_completing_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['raybench']\n"
        "from raybench.cli import group\n"
        "from click.shell_completion import ShellComplete\n"
        "for words in (['train', '--model'], ['run', '--suite'], ['diagnose', '--explain']):\n"
        "    assert ShellComplete(group, {}, 'raybench', 'X').get_completions(words, ''), words\n"
        "print([one for one in ('torch', 'ray', 'numpy', 'rich', 'ansible_runner', 'paramiko') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_no_option_takes_what_is_no_number() -> None:
    """No range holds NaN out; with --max-age nan a report of last year would be applied."""
    tried = 0
    for path, option, names in OPTIONS:
        if isinstance(option.type, click.FloatRange):  # what takes the others checks them, and says what to give
            with pytest.raises((UsageError, click.UsageError)) as refused:
                COMMANDS[path][0].make_context("raybench", [max(names, key=len), "nan"])
            tried += "is nan; it must be a finite number" in str(refused.value)
    assert tried >= 13  # the others want an argument first
