"""Commands whose output is recorded: JSON, words, plans and refusals."""

from __future__ import annotations

from tests.integrations.installation import QUESTION, UNKNOWN, Case

NOTES = ("--corpus", "notes", "--json", "--quiet")
ASK = ("ask", QUESTION)
COMMANDS: dict[str, tuple[str, ...]] = {
    "ask": ASK,
    "ask unsupported": ("ask", UNKNOWN, "--threshold", "0.999"),
    "ask refusing": ("ask", UNKNOWN, "--threshold", "0.999", "--unsupported", "refuse"),
    "ask of tokens": (*ASK, "--agreement", "off", "--max-tokens", "6"),
    "classify": ("classify", "Which?", "--label", "seven", "--label", "noon"),
    "count": ("count", "Is it about seven?"),
    "count sampled": ("count", "Is it about seven?", "--sample", "0.5"),
    "tally": ("tally", "What?", "--label", "seven", "--label", "noon"),
    "tally by vectors": (
        *("tally", "What?", "--label", "seven", "--label", "noon", "--by", "vectors"),
        *("--most", "2", "--sample", "0.5"),
    ),
    "survey": ("survey",),
    "survey of a question": ("survey", "--question", "What opens?", "--votes", "1"),
}
PLANS: dict[str, tuple[str, ...]] = {
    "ask": ASK,
    "ask for less": (*ASK, "--epsilon", "2", "--agreement", "only"),
    "ask of tokens": (*ASK, "--agreement", "off", "--top-k", "5"),
    "ask fixed": (*ASK, "--accounting", "fixed", "--threshold", "0.2"),
    "ask without a ledger": (*ASK, "--no-ledger"),
    "ask of a sample": (*ASK, "--threshold", "0.2", "--sample", "0.5"),
    "ask a reader": (*ASK, "--reader", "chat+http://127.0.0.1:9/v1#x", "--max-calls", "9"),
    "count": ("count", "Is it?"),
    "count sampled": ("count", "Is it?", "--sample", "0.5", "--epsilon", "2"),
    "tally": ("tally", "What?", "--label", "a", "--label", "b", "--most", "2"),
    "tally by vectors": ("tally", "What?", "--label", "a", "--label", "b", "--by", "vectors"),
    "survey": ("survey", "--votes", "2", "--sample", "0.5"),
}
WRONG: dict[str, tuple[str, ...]] = {
    "ask nothing": ("ask", " ", *NOTES),
    "ask nobody": (*ASK, "--corpus", "other"),
    "ask for little": (*ASK, *NOTES, "--epsilon", "0"),
    "ask twice": (*ASK, *NOTES, "--units", "3", "--top-k", "3"),
    "classify one": ("classify", "Which?", "--label", "a", *NOTES),
    "tally one": ("tally", "What?", "--label", "a", *NOTES),
    "count in part": ("count", "Is it?", "--sample", "0", *NOTES),
    "survey without a reader": ("survey", "--max-calls", "3", *NOTES),
}


def commanded(*runs: tuple[str, ...]) -> Case:
    return lambda installed: [installed.command(*words) for words in runs]


BUDGETS = (("budget", "show"), ("budget", "forecast", "--epsilon", "2"))
COMMAND_LINE: dict[str, Case] = {
    **{name: commanded((*words, *NOTES)) for name, words in COMMANDS.items()},
    **{
        f"{name} in words": commanded((*words, *NOTES[:2], "--quiet"))
        for name, words in COMMANDS.items()
        if name
        in ("ask", "ask unsupported", "ask refusing", "classify", "count", "tally", "survey")
    },
    **{
        f"plan: {name}": commanded(
            (*words, "--plan", *NOTES), (*words, "--plan", *NOTES[:2], "--quiet")
        )
        for name, words in PLANS.items()
    },
    **{f"refused: {name}": commanded(words) for name, words in WRONG.items()},
    "ask again": commanded((*ASK, *NOTES), (*ASK, *NOTES), (*ASK, "--fresh", *NOTES)),
    "count again": commanded(*[("count", "Is it?", *NOTES)] * 2),
    "ask without a ledger": commanded((*ASK, "--no-ledger", *NOTES)),
    "budget": commanded(
        *((*one, "--json") for one in BUDGETS),
        (*ASK, "--caller", "ann", *NOTES),
        *((*one, "--json") for one in BUDGETS),
        *BUDGETS,
    ),
    "budget set": commanded(
        ("budget", "set", "--corpus", "notes", "--epsilon", "9", "--json"),
        ("budget", "set", "--caller", "ann", "--rho", "1", "--strict", "--json"),
        ("budget", "set", "--corpus", "notes"),
        ("budget", "set", "--corpus", "notes", "--rho", "1", "--thresholds", "1.5"),
    ),
}
POOR: dict[str, Case] = {name: commanded((*words, *NOTES)) for name, words in COMMANDS.items()}
"""Of a budget that pays for nothing."""
