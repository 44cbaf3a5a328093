"""The steps of Dockerfile and compose.yaml: built, a key made, filled, asked, and ended."""

from __future__ import annotations

import contextlib
import json
import mailbox
import os
import re
import shutil
import signal
import tempfile
import time
from email.message import EmailMessage
from pathlib import Path
from subprocess import DEVNULL, PIPE

import httpx
import pytest

from dpicl_rag import Ledger
from dpicl_rag.language_models.converted_models import DEFAULT
from tests.support.chroma_server import free_port
from tests.support.containers import Room, commands, compose, health_check, last

pytest.importorskip("hatch_fancy_pypi_readme", reason="it builds the wheel")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and users"),
]
SERVICE = compose()["services"]["server"]
WRITE_ELSEWHERE = "import sys; open(sys.prefix + '/new', 'w')"


@pytest.fixture(scope="module")
def room():
    """The image, built."""
    folder = Path(tempfile.mkdtemp(prefix="dpicl-room-"))  # pytest's own are closed to others
    folder.chmod(0o755)
    try:
        port = free_port()
        words = {last("EXPOSE"): str(port), "/inbox.mbox": f"{folder}/inbox.mbox"}
        made = Room(folder, words)
        made.port = port
        made.build()
        # The container would convert it: half a minute for the same files.
        model = DEFAULT.folder()
        cache = folder / "data" / "cache" / "dpicl-rag"
        shutil.copytree(model, cache / model.name)
        if made.isolated:
            for path in (folder / "data").rglob("*"):
                os.chown(path, made.user, made.user)
        yield made
    finally:
        shutil.rmtree(folder)


def told(room, *words):
    """What a command of the image says; it ends well."""
    command = [*json.loads(last("ENTRYPOINT")), *words]
    with room.run(command, SERVICE, stdout=PIPE, stderr=PIPE, text=True) as process:
        said, errors = process.communicate(timeout=180)
    assert process.returncode == 0, said + errors
    return said


def healthy(room):
    with room.run(health_check(), SERVICE, stdout=DEVNULL, stderr=DEVNULL) as process:
        return process.wait(30) == 0


def image(room):
    """Every file of the image, and when it was written."""
    files = (path for path in (room.folder / "venv").rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files}


@contextlib.contextmanager
def served(room):
    """The server, healthy; it ends with the block."""
    command = json.loads(last("ENTRYPOINT")) + json.loads(last("CMD"))
    with room.run([*command, "--port", str(room.port)], SERVICE) as process:
        try:
            until = time.monotonic() + 180
            while not healthy(room):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(1)
            yield process
        finally:
            process.kill()


def write_mailbox(path):
    box = mailbox.mbox(path)
    for number in range(12):
        message = EmailMessage()
        message["From"], message["To"] = f"person{number}@example.org", "help@example.org"
        message["Message-ID"], message["Subject"] = f"<{number}@example.org>", "Canteen"
        message.set_content(f"The canteen opens at half past eleven. {number}")
        box.add(message)
    box.close()
    path.chmod(0o644)


def upload(client, headers):
    """A text by an owner's key, read to its end."""
    form = {"data": {"corpus": "house"}, "files": {"file": ("house.txt", b"Lunch is at noon.")}}
    sent = client.post("/v1/owner/documents", headers=headers, **form)
    assert sent.status_code == 202, sent.text
    until = time.monotonic() + 120
    while (job := client.get("/v1/owner/job", headers=headers).json())["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.2)
    assert job["state"] == "done", job


def test_an_image_that_is_built_is_filled_asked_and_ended(room):
    before = image(room)
    add_key, ingest = commands()
    assert add_key[:2] == ["keys", "add"]
    key = re.search(r"dpk-[\w-]+", told(room, *add_key))[0]
    write_mailbox(room.folder / "inbox.mbox")
    told(room, *ingest)
    assert told(room, "corpora", "list").split() == ["mail"]
    assert not healthy(room)
    with served(room) as process:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{room.port}", timeout=120) as client:
            assert client.get("/v1/models").status_code == 401
            models = client.get("/v1/models", headers=headers).json()["data"]
            assert [model["id"] for model in models] == ["mail", "public"]
            for name in ("", "page/app.js", "page/owner.js", "page/style.css"):
                assert client.get(f"/{name}").status_code == 200
            messages = [{"role": "user", "content": "When does the canteen open?"}]
            body = {"model": "mail", "messages": messages, "max_tokens": 8}
            answer = client.post("/v1/chat/completions", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            assert answer.json()["privacy"]["epsilon"] > 0
            upload(client, headers)
            models = client.get("/v1/models", headers=headers).json()["data"]
            assert [model["id"] for model in models] == ["house", "mail", "public"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
    with Ledger(room.folder / "data" / "dpicl-rag" / "ledger.sqlite") as ledger:
        spent = {one.name: (one.questions, one.reserved) for one in ledger.status()}
    assert spent["mail"] == (1, 0)
    assert image(room) == before
    corpora = room.folder / "data" / "dpicl-rag" / "corpora"
    assert {path.stem for path in corpora.glob("*.vectors")} == {"house", "mail"}
    assert corpora.stat().st_mode & 0o077 == 0


def test_what_runs_is_the_wheel_as_a_user_that_changes_nothing_but_its_volumes(room):
    show = "import os, dpicl_rag; print(dpicl_rag.__file__, os.getuid())"
    with room.run(["python", "-c", show], SERVICE, stdout=PIPE, text=True) as process:
        place, user = process.communicate(timeout=60)[0].split()
    assert Path(place).is_relative_to(room.folder / "venv")
    if not room.isolated:
        pytest.skip("who may make no namespaces of mounts is not kept from writing")
    assert int(user) == room.user != 0
    with room.run(["python", "-c", WRITE_ELSEWHERE], SERVICE, stderr=PIPE, text=True) as process:
        assert "Read-only file system" in process.communicate(timeout=60)[1]
    with room.run(["grep", "Cap[EB]\\|NoNewPrivs", "/proc/self/status"], SERVICE, stdout=PIPE) as p:
        rights = p.communicate(timeout=60)[0].split()
    assert [int(number, 16) for number in rights[1::2]] == [0, 0, 1]
