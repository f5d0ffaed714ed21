"""Which variables are written down as "set", and which of those that sound alike are not."""

import re
from typing import Any

import pytest

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.config import RunConfig
from raybench.errors import UsageError
from raybench.secret_values import is_secret, moved_to_environment, recorded_pair, without_secrets

SECRET = (
    *("MY_TOKEN", "HF_TOKEN", "GHTOKEN", "my_token", "apiToken", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "PASSWD", "GOOGLE_CREDENTIALS", "BASIC_AUTH", "SSH_PRIVATE_KEY"),
    *("SESSION_COOKIE", "NCCL_PLUGIN_TOKEN", "UCX_SECRET", "SIGNING_KEY", "KEY"),
    *("GITHUB_PAT", "AWS_CREDS", "BEARER", "DB_PASSCODE", "SSHPASS", "SLACK_WEBHOOK_URL"),
)
PLAIN = (
    *("NCCL_IB_PKEY", "UCX_IB_PKEY", "NCCL_KEY", "FI_PROVIDER", "TOKENIZERS_PARALLELISM", "MONKEY", "AUTHOR"),
    *("KEYBOARD", "PWD", "OLDPWD", "PATH", "NCCL_ALGO", "OMP_NUM_THREADS", "PASSED_ON", "COMPASS", "HOSTKEYS_ARE"),
)
# Made-up values, in the forms of real ones, cut in two where a scanner of secrets would take them for real.
SECRET_VALUES = (
    *("https://TOKEN@host", "https://" + "ghp_abcdefghijklmnopqrstuvwx@host/repo", "redis://:pw@host:6379/0"),
    *("Authorization: Bearer abc.def", "Bearer abcdefghijklmnop1234", "Basic dXNlcjpwYXNzd29yZA=="),
    *("postgres://u:p@h/db", "Server=h;User Id=u;Password=p;", "Endpoint=sb://a/;SharedAccessKey=abc="),
    *("AccountName=a;AccountKey=abc==;EndpointSuffix=x", "https://b/k?X-Amz-Algorithm=A&X-Amz-Signature=abcd"),
    *("https://a/c?sv=2020&sig=abc%3D", "https://h/p?token=abc", "https://h/p?access_token=abc&x=1", "api-key=abc,x=y"),
    *("gh" + "p_abcdefghijklmnopqrstuvwx", "h" + "f_abcdefghijklmnopqrstuvwx", "sk-" + "proj-abcdefghijklmnopq0123"),
    *("xox" + "b-123-456-abc", "AKIA" + "IOSFODNN7EXAMPLE", "glpat" + "-abcdefghij1234567890", "password=abc"),
    *("ey" + "JhbGciOiJIUzI1.eyJzdWIiOiIxIn0.abc", "-----BEGIN PRIVATE" + " KEY-----", "--api-key=abc"),
    *("https://hooks.slack." + "com/services/T0/B0/abc", "--token abc", "-v --password abc --x=1", "--api-key  abc"),
    *('{"password": "abc"}', "{'token':'abc'}", "user: me, password: abc", '{"a":1,"secret_access_key":"abc"}'),
)
PLAIN_VALUES = (
    *("https://host/path", "http://10.0.0.1:8080/x?size=1", "git@github.com:org/repo", "user@host", "https://h/a@b"),
    *("ssh://git@github.com/org/repo", "tokenizer=gpt2", "pad_token=<pad>", "max_tokens=4096", "s3://bucket/prefix"),
    *("=mlx5_0:1", "basic", "bearer", "Basic usage of it", "sort_key=name", "passthrough=1", "sk-learn", "A=B;C=D"),
    *("--tokens 4096", "--pad-token 0", "--password-file", "--token --verbose", '{"pad_token": "x"}'),
    *("/usr/bin:/bin", "lr=1e-3;steps=10", "signature", "^docker0,lo", "0x7fff", "design=7"),
)


@pytest.mark.parametrize("value", SECRET_VALUES)
def test_a_value_that_is_a_secret_is_known_whatever_its_name(value: str) -> None:
    assert recorded_pair(f"SETTING={value}") == "SETTING=set"
    assert without_secrets({"to": (value,)}) != {"to": (value,)}


@pytest.mark.parametrize("value", PLAIN_VALUES)
def test_a_value_that_is_no_secret_is_written_down(value: str) -> None:
    assert recorded_pair(f"SETTING={value}") == f"SETTING={value}"
    assert without_secrets([value]) == [value]


def test_a_number_of_tokens_is_no_token() -> None:
    assert recorded_pair("MAX_TOKENS_PER_GPU=4096") == "MAX_TOKENS_PER_GPU=4096"
    assert recorded_pair("MAX_TOKENS=4096") == "MAX_TOKENS=4096"
    assert recorded_pair("API_TOKENS=abc,def") == "API_TOKENS=set"


def test_an_option_keeps_what_is_no_secret_in_it() -> None:
    options = CheckpointOptions(to=("s3://runs",), endpoint="https://me:hunter2@storage:9000/?x=1&X-Amz-Signature=abc")
    config = RunConfig(suite="checkpoint", options={"checkpoint": options}, env=("A=https://TOKEN@host",))
    written = str(config.to_json()) + str(options.parameters())
    assert "https://set@storage:9000/?x=1&X-Amz-Signature=set" in written
    assert not re.search("hunter2|abc|TOKEN", written)


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_said_to_be_set(name: str) -> None:
    assert recorded_pair(f"{name}=hunter2=") == f"{name}=set"


@pytest.mark.parametrize("name", PLAIN)
def test_what_only_sounds_alike_is_written_down(name: str) -> None:
    assert recorded_pair(f"{name}=a=b") == f"{name}=a=b"


def test_a_url_with_a_password_is_secret_whatever_its_name() -> None:
    assert is_secret("STORE", "s3://me:hunter2@host/bucket")
    assert not is_secret("STORE", "s3://host:9000/bucket")


def test_a_study_hands_secrets_on_in_the_environment() -> None:
    """Its plan, and the words of its trials' commands, can be read by others."""
    environment: dict[str, str] = {}
    words = ("train", "--env", "MY_TOKEN=a=b", "--env=API_KEY=c", "--env", "NCCL_ALGO=Ring", "--model", "MY_TOKEN=x")
    moved = moved_to_environment(words, environment)
    assert moved == ("train", "--env", "MY_TOKEN", "--env=API_KEY", "--env", "NCCL_ALGO=Ring", "--model", "MY_TOKEN=x")
    assert environment == {"MY_TOKEN": "a=b", "API_KEY": "c"}


def test_a_name_alone_takes_the_value_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    config = RunConfig(env=("MY_TOKEN", "A=1"))
    assert config.variables() == {"MY_TOKEN": "hunter2", "A": "1"}
    written: dict[str, Any] = config.to_json()
    assert written["env"] == ("MY_TOKEN", "A=1")
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(UsageError, match="this shell has no variable MY_TOKEN to take"):
        config.variables()
