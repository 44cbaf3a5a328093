"""How fast are many experts on a GPU? Six minutes at most, with nothing to download.

``python -m benchmarks.gpu`` makes random weights in 16 bits of the shapes of ``small`` and
``large`` on the GPU. Of each it tells what the probe of rows says, how long the engine takes to
read the experts' units, and how many tokens of an answer come in a second: from the engine, from
the model's bare forward passes over the same rows, and from ``generate`` of transformers.
``--shape tiny`` runs on a CPU too.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.language_models.transformers import TransformersModel

Figures = dict[str, Any]
# What this file and those that it loads import when they are loaded; nothing else need be there.
NEEDED = ("torch", "transformers", "tokenizers", "safetensors", "platformdirs", "regex", "xxhash")
CONTENDERS = ("engine", "bare", "generate")
SHAPES = ("tiny", "small", "large")


@dataclass(frozen=True)
class Sizes:
    """Numbers of experts, of tokens of each one's unit, and of tokens of an answer."""

    experts: int
    unit_tokens: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.experts} experts of {self.unit_tokens} tokens, answers of {self.tokens}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", action="append", choices=SHAPES, help="small and large")
    parser.add_argument("--seconds", type=float, default=360, help="limit; the rest is skipped")
    parser.add_argument("--experts", type=int, default=64, help="rows beside the public one")
    parser.add_argument("--unit-tokens", type=int, default=256, help="of each expert")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--json", action="store_true", help="a last line with all figures")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        return _fail(f"not installed here: {' '.join(missing)}")
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes = list(dict.fromkeys(options.shape or ("small", "large")))
    if device.type == "cpu" and shapes != ["tiny"]:
        return _fail("torch sees no GPU here; --shape tiny runs on a CPU")
    sizes = Sizes(options.experts, options.unit_tokens, options.tokens)
    found: Figures = {"machine": machine(device), "sizes": asdict(sizes), "shapes": {}}
    print(f"{found['machine']}; {sizes}")
    for shape in shapes:
        figures = found["shapes"][shape] = measured(shape, device, sizes, deadline)
        print(f"\n{described(shape, figures)}", flush=True)
    if options.json:
        print(json.dumps(found))
    return int(any(figures["failed"] for figures in found["shapes"].values()))


def _fail(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 1


def machine(device: Any) -> str:
    """The card and the versions, in one line."""
    import torch
    import transformers

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    return (
        f"{name}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, bfloat16"
    )


def measured(shape: str, device: Any, sizes: Sizes, deadline: float) -> Figures:
    """All figures of one shape; what fails or comes too late leaves the others alone."""
    from benchmarks import row_rates
    from benchmarks.random_weights import random_model

    figures: Figures = {"failed": {}, "skipped": []}

    def note(name: str, measure: Callable[[], Figures]) -> None:
        try:
            if time.monotonic() > deadline:
                raise row_rates.OutOfTimeError
            figures[name] = measure()
        except row_rates.OutOfTimeError:
            figures["skipped"].append(name)
        except Exception as error:
            # A GPU is lent for minutes: the others go on.
            figures["failed"][name] = f"{type(error).__name__}: {error}".splitlines()[0]

    models: list[TransformersModel] = []

    def make() -> Figures:
        began = time.monotonic()
        models.append(random_model(shape, device))
        parameters = sum(weight.numel() for weight in models[0]._model.parameters())
        return {"parameters": parameters, "seconds": time.monotonic() - began}

    def prompts() -> row_rates.Prompts:
        vocabulary = models[0]._vocabulary
        return row_rates.Prompts.made_up(vocabulary, sizes.experts, sizes.unit_tokens)

    def rate(name: str) -> Figures:
        contender = row_rates.CONTENDERS[name]
        return row_rates.rate(contender, models[0], prompts(), sizes.tokens, deadline)

    note("weights", make)
    if figures["failed"]:
        return figures
    note("probe", lambda: row_rates.probed(models[0]))
    note("reading", lambda: row_rates.reading(models[0], prompts(), deadline))
    for name in CONTENDERS:
        note(name, partial(rate, name))
    return figures


def described(shape: str, figures: Figures) -> str:
    """A few lines and a table, as README.md takes them."""
    lines = [f"### {shape}", ""]
    if weights := figures.get("weights"):
        number, seconds = weights["parameters"], weights["seconds"]
        lines.append(f"{number:,} random weights, made in {seconds:.1f} s.")
    if probe := figures.get("probe"):
        errors = "".join(f" ({error})" for error in probe["errors"])
        lines.append(f"Probe: {probe['verdict']}{errors}; {probe['seconds']:.1f} s.")
    if reading := figures.get("reading"):
        lines.append(f"Units read in {reading['seconds']:.2f} s, peak {reading['peak_gb']:.1f} GB.")
    rates = {name: figures[name] for name in CONTENDERS if name in figures}
    if rates:
        lines += ["", "| | first token, s | tokens / s | engine, times as fast | peak, GB |"]
        lines.append("|---|---|---|---|---|")
    for name, found in rates.items():
        ratio = "-"
        if "engine" in rates:
            ratio = f"{rates['engine']['tokens_per_s'] / found['tokens_per_s']:.2f}"
        lines.append(
            f"| {name} | {found['first_token_s']:.2f} | {found['tokens_per_s']:.1f} | {ratio} "
            f"| {found['peak_gb']:.1f} |"
        )
    if figures["skipped"]:
        lines += ["", f"Skipped, time was up: {', '.join(figures['skipped'])}."]
    for name, why in figures["failed"].items():
        lines += ["", f"Failed, {name}: {why}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
