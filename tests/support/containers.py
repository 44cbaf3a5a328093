"""Dockerfile and compose.yaml, read, and their steps taken in a folder: no container runtime.

Paths of the image are folders of that room. Packages that are here already are not installed a
second time. Where this process is root and may make namespaces of mounts, a service runs as the
image's user over a read-only root, without capabilities; else as the user of this process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
_IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INSTRUCTIONS = {
    *("FROM", "ARG", "RUN", "ENV", "COPY", "USER", "VOLUME"),
    *("EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
_FOLDERS = ("venv", "src", "data", "models", "tmp")


def dockerfile() -> list[tuple[str, str]]:
    """Instructions and what stands behind them."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    steps = [line.split(None, 1) for line in text.replace("\\\n", "").splitlines() if line]
    unknown = {word for word, _ in steps} - _INSTRUCTIONS
    assert not unknown, f"teach tests/support/containers.py {unknown}"
    return [(word, rest) for word, rest in steps]


def last(word: str) -> str:
    """What the last instruction of a name says, which is the final stage's."""
    return [rest for name, rest in dockerfile() if name == word][-1]


def health_check() -> list[str]:
    """Its command."""
    return json.loads(last("HEALTHCHECK").partition("CMD")[2])


def compose() -> dict:
    """What compose.yaml says."""
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def commands() -> list[list[str]]:
    """What the head of compose.yaml proposes to run in the server's image."""
    lines = (ROOT / "compose.yaml").read_text().splitlines()
    found = [line for line in lines if line.startswith("# docker compose run")]
    return [shlex.split(re.split(r"\s{3,}", line.partition(" server ")[2])[0]) for line in found]


class Room:
    """Where an image is built and run.

    Args:
        folder: Empty; whoever works on this machine may enter it.
        words: What stands for words of the two files here, such as ports.
    """

    def __init__(self, folder: Path, words: dict[str, str]) -> None:
        self.folder = folder
        self._words = words
        for name in _FOLDERS:
            (folder / name).mkdir()
        self.user = int(last("USER").partition(":")[0])
        self.environment: dict[str, str] = {}

    @property
    def isolated(self) -> bool:
        """Whether namespaces of mounts can be made."""
        tools = all(shutil.which(tool) for tool in ("unshare", "setpriv", "mount"))
        return os.geteuid() == 0 and tools and subprocess.call(["unshare", "-m", "true"]) == 0

    def placed(self, text: str) -> str:
        """Text of the two files as it is to be read here."""
        if os.geteuid() != 0:  # nobody else's files can be made
            mine = {"-o ": os.getuid(), "-g ": os.getgid()}
            for flag, number in mine.items():
                text = text.replace(f"{flag}{self.user}", f"{flag}{number}")
        names = "|".join(_FOLDERS)
        text = re.sub(rf"(?<![\w.:/-])/({names})(?![\w-])", rf"{self.folder}/\1", text)
        for word, here in self._words.items():
            text = text.replace(word, here)
        return text

    def build(self) -> None:
        """Take the steps of all stages, which share one file system here."""
        around = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # Everything is there; what is not must not be fetched.
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        for word, rest in dockerfile():
            if word == "FROM":
                self.environment = {"PATH": around["PATH"]}
            elif word in ("ARG", "ENV"):
                self._set(rest)
            elif word == "COPY":
                self._copy(*rest.split())
            elif word == "RUN":
                subprocess.run(
                    ["sh", "-ec", self.placed(rest)],
                    env=around | self.environment, cwd=self.folder, stdout=subprocess.DEVNULL,
                    check=True, timeout=300,
                )  # fmt: skip
                self._show_packages()
        self.environment["PATH"] = f"{self.folder}/venv/bin:{_IMAGE_PATH}"

    def run(self, command: list[str], service: dict, **options) -> subprocess.Popen:
        """Start a command as compose would: its user, environment, rights and folders."""
        given = {name: self.placed(value) for name, value in service.get("environment", {}).items()}
        kept = {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
        return subprocess.Popen(
            [*self._walls(service), *map(self.placed, command)],
            env={**self.environment, **given, **kept, "TMPDIR": f"{self.folder}/tmp"},
            cwd="/",
            **options,
        )

    def _set(self, text: str) -> None:
        for setting in shlex.split(text):
            name, value = setting.split("=", 1)
            value = value.replace("$PATH", self.environment["PATH"])
            self.environment[name] = self.placed(value)

    def _copy(self, *words: str) -> None:
        *sources, target = words
        if sources[0].startswith("--from="):  # the stages share their folders
            assert sources[1:] == [target]
            return
        there = Path(self.placed(target))
        for source in sources:
            path = ROOT / source
            if path.is_dir():
                shutil.copytree(path, there, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, there)

    def _show_packages(self) -> None:
        """Let the image's environment see what is installed here, behind its own."""
        for packages in (self.folder / "venv").glob("lib/python*/site-packages"):
            import hatchling

            # Before Python 3.12 every environment begins with one, which is too old for torch.
            for old in packages.glob("setuptools*"):
                shutil.rmtree(old)
            here = {*(sysconfig.get_path(one) for one in ("purelib", "platlib"))}
            here.add(str(Path(hatchling.__file__).parents[1]))
            (packages / "here.pth").write_text("\n".join(sorted(here)))

    def _walls(self, service: dict) -> list[str]:
        if not self.isolated:
            return []
        writable = [self.folder / name for name in ("data", "models", "tmp")]
        for path in writable:
            os.chown(path, self.user, self.user)
        steps = ["set -e", *self._opened()]
        steps += [f"mount --bind {path} {path}" for path in writable]
        if service["read_only"]:
            steps.append("mount -o remount,bind,ro /")
        rights = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        if service["cap_drop"] == ["ALL"]:
            rights += ["--bounding-set=-all", "--inh-caps=-all"]
        if "no-new-privileges:true" in service["security_opt"]:
            rights.append("--no-new-privs")
        steps.append(f'exec setpriv {shlex.join(rights)} -- "$@"')
        return ["unshare", "-m", "sh", "-c", "\n".join(steps), "room"]

    def _opened(self) -> list[str]:
        """Steps that let the image's user reach this interpreter and its packages."""
        import hatchling

        needed = {sys.base_prefix, sys.prefix, str(Path(hatchling.__file__).parents[1])}
        closed: dict[Path, list[Path]] = {}
        for path in map(Path, sorted(needed)):
            way = [*reversed(path.parents), path]
            shut = [one for one in way if not one.stat().st_mode & 0o001]
            if shut:
                closed.setdefault(shut[0], []).append(path)
        steps, number = [], 0
        for door, paths in closed.items():
            inside = {}
            for path in paths:
                inside[path] = self.folder / f"inside-{number}"
                number += 1
                steps += [f"mkdir -p {inside[path]}", f"mount --bind {path} {inside[path]}"]
            steps.append(f"mount -t tmpfs -o mode=755 none {door}")
            for path, seen in inside.items():
                steps += [f"mkdir -p {path}", f"mount --bind {seen} {path}"]
        return steps
