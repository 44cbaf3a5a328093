"""The example of docs/methods.md is run."""

from __future__ import annotations

import re
from pathlib import Path

from dpicl_rag import vision
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, an_image

GUIDE = Path(__file__).parents[3] / "docs" / "methods.md"


def test_the_example_labels_a_picture(tmp_path, monkeypatch):
    for label, colour in {"rose": (250, 0, 0), "tulip": (0, 250, 250)}.items():
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(9):
            shade = tuple(abs(part - number) for part in colour)
            (tmp_path / "photos" / label / f"{number}.png").write_bytes(an_image(shade))
    (tmp_path / "query.jpg").write_bytes(an_image((255, 20, 20), format="JPEG"))
    monkeypatch.chdir(tmp_path)
    model = VisionPrototype(ColourNetwork())
    monkeypatch.setattr(vision, "load_vision_model", lambda name: model)
    examples = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    (example,) = [example for example in examples if "classify_image" in example]
    names: dict[str, object] = {}
    exec(example, names)
    assert (names["label"].label, names["label"].epsilon) == ("rose", 4.0)
