"""Audits over HTTP, and what is shown of them."""

from __future__ import annotations

import sys

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.audits import Auditor, audit_command
from tests.unit.server.test_server_ends import until
from tests.unit.server.test_server_uploads import ended

AUDIT = {"corpus": "notes", "question": "Where is the office?"}
REPORT = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / "audit.txt").write_text("Privacy audit: within the claim")
(folder / "audit.png").write_bytes(b"png")
(folder / "summary.json").write_text(json.dumps({"whole": True, "holds": True}))
"""


def auditing(tmp_path, program):
    def command(corpus, question, runs, out, settings):
        return [sys.executable, "-c", program, str(out)]

    return Auditor(tmp_path / "audits", command)


def test_a_question_is_one_word_of_an_audits_command(tmp_path):
    command = audit_command(["epsilon"], "--path", "store")
    words = command("notes", "--runs=1 $(x)", 20, tmp_path, {"epsilon": 4.0})
    assert "--question=--runs=1 $(x)" in words
    assert "--runs=20" in words
    assert words[-2:] == ["--epsilon", "4.0"]
    with pytest.raises(ConfigurationError, match="copy_bias"):
        command("notes", "Where?", 20, tmp_path, {"copy_bias": 2.0})


def test_an_audits_report_and_plot(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    assert running.client.get("/v1/owner/audits/notes").json()["error"]["code"] == "no_audit"
    assert running.client.post("/v1/owner/audits", json=AUDIT).status_code == 202
    assert ended(running)["result"] == {"holds": True}
    found = running.client.get("/v1/owner/audits/notes").json()
    summary = {"whole": True, "holds": True}
    assert found == {"summary": summary, "text": "Privacy audit: within the claim"}
    assert running.client.get("/v1/owner/audits/notes/plot").content == b"png"


def test_an_audit_that_fails_says_why(serve, tmp_path):
    program = "import sys; sys.exit('error: no document was found')"
    running = serve(owner={"auditor": auditing(tmp_path, program)})
    running.client.post("/v1/owner/audits", json=AUDIT)
    job = ended(running)
    assert job["state"] == "failed"
    assert job["error"].endswith("error: no document was found")


def test_an_audit_that_fails_leaves_the_last_report(serve, tmp_path):
    whole = tmp_path / "whole"
    program = f"import os\nos.path.exists({str(whole)!r}) and exit('error: no')\n"
    running = serve(owner={"auditor": auditing(tmp_path, program + REPORT)})
    running.client.post("/v1/owner/audits", json=AUDIT)
    ended(running)
    before = running.client.get("/v1/owner/audits/notes").json()
    whole.touch()
    running.client.post("/v1/owner/audits", json=AUDIT)
    assert ended(running)["state"] == "failed"
    assert running.client.get("/v1/owner/audits/notes").json() == before


def test_an_audit_shows_what_it_has_and_goes_on_where_it_was_stopped(serve, tmp_path):
    program = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
found = (folder / "unfinished.json").exists()
(folder / "unfinished.json").write_text("{}")
(folder / "audit.txt").write_text(f"unfinished, {1 + found} of 7 parts were run")
(folder / "summary.json").write_text(json.dumps({"whole": False, "holds": True}))
time.sleep(600)
"""
    running = serve(owner={"auditor": auditing(tmp_path, program)})

    def shown():
        answer = running.client.get("/v1/owner/audits/notes")
        return answer.json().get("text"), answer.json().get("summary", {}).get("whole")

    for parts in (1, 2):
        assert running.client.post("/v1/owner/audits", json=AUDIT).status_code == 202
        found = (f"unfinished, {parts} of 7 parts were run", False)
        until(lambda found=found: shown() == found)
        running.client.post("/v1/owner/job/stop")
        assert ended(running)["state"] == "stopped"
        assert shown() == found


def test_an_audit_tells_how_far_it_is_and_how_long_it_takes(serve, tmp_path):
    program = """
import json, pathlib, sys, time
go = pathlib.Path(sys.argv[1]).parents[2] / "go"
for percent in (0, 25):
    print(json.dumps({"progress": "Canary", "percent": percent}), file=sys.stderr, flush=True)
    time.sleep(0.5)
while not go.exists():
    time.sleep(0.01)
"""
    running = serve(owner={"auditor": auditing(tmp_path, program + REPORT)})
    answer = running.client.post("/v1/owner/audits", json=AUDIT | {"runs": 20})
    assert answer.status_code == 202
    until(lambda: running.client.get("/v1/owner/job").json()["done"] == 25)
    job = running.client.get("/v1/owner/job").json()
    assert (job["stage"], job["total"]) == ("Canary", 100)
    assert 1 <= job["seconds_left"] < 60
    (tmp_path / "go").touch()
    assert ended(running)["state"] == "done"


@pytest.mark.parametrize("runs", [0, 3, 2001, "many", 5.5])
def test_an_audit_of_no_number_of_runs_is_refused(serve, tmp_path, runs):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    answer = running.client.post("/v1/owner/audits", json=AUDIT | {"runs": runs})
    assert answer.status_code == 400


def test_a_stopped_audit_ends_its_process(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, "import time; time.sleep(600)")})
    running.client.post("/v1/owner/audits", json=AUDIT)
    running.client.post("/v1/owner/job/stop")
    assert ended(running)["state"] == "stopped"


def test_only_what_is_served_is_audited(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    for corpus in ("payroll", "public", "../notes"):
        answer = running.client.post("/v1/owner/audits", json=AUDIT | {"corpus": corpus})
        assert answer.status_code == 404
    assert running.client.get("/v1/owner/audits/..%2f..%2fstore").status_code == 404
