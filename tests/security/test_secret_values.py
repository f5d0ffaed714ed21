"""Which variables are written down as "set", and which of those that sound alike are not."""

from typing import Any

import pytest

from raybench.config import RunConfig
from raybench.errors import UsageError
from raybench.secret_values import is_secret, moved_to_environment, recorded_pair

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
