"""The template of a prompt with examples and one to be written. Everything in it is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.prompts import Prompt, opening_tokens

_ENDS = ("\n", " END")


@dataclass(frozen=True, slots=True)
class ExampleTemplate:
    """Pairs of a label and a text, behind one instruction: Tang et al. 2024, Appendix C.

    Attributes:
        instruction: What is asked for.
        label: What stands before a label.
        text: What stands before a text.
        no_example: What the public row reads in an example's place.
    """

    instruction: str = "Given a label, write a text of this kind."
    label: str = "Label:"
    text: str = "Text:"
    no_example: str = "Here is one."

    def prompt(self, tokenizer: Tokenizer, label: str) -> Prompt:
        """Tokens around the examples of one label."""
        return Prompt(
            prefix=tuple(opening_tokens(tokenizer, f"{self.instruction}\n\n")),
            suffix=tuple(tokenizer.encode(f"\n\n{self.label} {label}\n{self.text}")),
            no_document=self.no_example,
        )

    def shown(self, label: str, text: str) -> str:
        """A private example as it stands in a prompt."""
        return f"{self.label} {label}\n{self.text} {text}"


def ended(tokenizer: Tokenizer, tokens: Sequence[int]) -> bool:
    """Whether a text has come to its end."""
    if tokens and tokens[-1] in tokenizer.stop_tokens:
        return True
    text = tokenizer.decode(tokens)
    return any(end in text for end in _ENDS)


def written(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """The text up to its end, without the white space around it."""
    text = tokenizer.decode([token for token in tokens if token not in tokenizer.stop_tokens])
    cuts = [at for end in _ENDS if (at := text.find(end)) >= 0]
    return text[: min(cuts, default=len(text))].strip()
