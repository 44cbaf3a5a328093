"""Dockerfile and compose.yaml say what docs/server.md promises."""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from pathlib import Path

import pytest

from dpicl_rag.server.run import LAST
from tests.support.command_line import run_command
from tests.support.containers import commands, compose, dockerfile, health_check, last

SERVICES = compose()["services"]
OURS = ["server"]


def folders(service):
    """Named volumes, by where they are seen."""
    return dict(reversed(volume.split(":")[:2]) for volume in service["volumes"])


@pytest.mark.parametrize("name", OURS)
def test_a_service_can_change_its_volumes_alone_and_gain_no_right(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    assert "cap_add" not in service
    assert set(folders(service).values()) <= compose()["volumes"].keys()


def test_the_volumes_are_those_of_the_image_and_hold_what_is_kept():
    seen = set(folders(SERVICES["server"]))
    assert seen == set(json.loads(last("VOLUME")))
    image = dict(
        setting.split("=", 1)
        for word, rest in dockerfile()
        if word == "ENV"
        for setting in shlex.split(rest)
    )
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HF_HOME"):
        assert any(Path(image[name]).is_relative_to(folder) for folder in seen), name
    # What follows from documents lies where no other service looks.
    private = {folders(SERVICES["server"])["/data"]}
    others = [one for name, one in SERVICES.items() if name not in OURS]
    assert not any(private & set(folders(one).values()) for one in others)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        assert Path(image[name]).is_relative_to("/data")


def test_the_image_runs_as_somebody_and_is_asked_whether_it_is_ready():
    user, group = map(int, last("USER").split(":"))
    assert user > 0
    assert group > 0
    assert f"127.0.0.1:{last('EXPOSE')}/ready" in " ".join(health_check())
    assert "HEALTHCHECK" not in str(SERVICES["server"])


def test_only_this_machine_reaches_the_server():
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            host, _, inside = port.rsplit(":", 2)
            assert name == "server"
            assert ipaddress.ip_address(host).is_loopback
            assert inside == last("EXPOSE")


def test_answers_have_time_to_end():
    grace = SERVICES["server"]["stop_grace_period"]
    assert re.fullmatch(r"\d+s", grace)
    assert int(grace[:-1]) > LAST


@pytest.mark.parametrize("command", [*commands(), json.loads(last("CMD"))], ids=" ".join)
def test_its_commands_are_those_of_the_command_line(command):
    words = [word for word in command if not word.startswith("-")]
    known = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
    told = run_command(*known, "--help")
    assert told.exit_code == 0
    for option in command:
        if option.startswith("--"):
            assert option in told.output
