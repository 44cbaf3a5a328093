"""Every error the library raises on purpose.

The tree::

    DPICLError
    ├── ConfigurationError      (ValueError)   a parameter is outside its range
    │   ├── ContextLengthError                 the public prompt does not fit the model
    │   └── MisreadingError                    a model misreads too often for a count
    ├── MissingDocumentsError   (ValueError)   a private call without documents
    ├── MissingDependencyError  (ImportError)  an optional package is not installed
    ├── ModelError                             a model cannot be loaded
    │   └── EngineUnavailableError             what computes its rows does not answer
    ├── CorpusError                            a corpus is unknown or cannot be used
    ├── LoaderError                            a path holds nothing that can be read
    ├── LedgerError                            the ledger file cannot be used
    ├── KeyFileError                           the file of API keys cannot be used
    ├── KnowledgeError                         public knowledge cannot be read or kept
    ├── StoppedError                           work was ended before its release
    ├── DeltaSpentError                        a budget has no delta left for thresholds
    └── BudgetExceededError                    a budget cannot pay for the request

Messages name the remedy. They never carry private text, scores, probabilities, numbers of experts
or what a single privacy unit has spent.
"""

from __future__ import annotations

from datetime import date


class DPICLError(Exception):
    """Base class of all errors of this library."""


class ConfigurationError(DPICLError, ValueError):
    """A parameter is outside its range or contradicts another."""


class ContextLengthError(ConfigurationError):
    """The question and the template alone do not fit the model's context."""


class MisreadingError(ConfigurationError):
    """A model misreads too often, by its rehearsal, to count what is asked; ``anyway`` counts."""


class MissingDocumentsError(DPICLError, ValueError):
    """A call on the private path brought no documents argument at all."""


class MissingDependencyError(DPICLError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class ModelError(DPICLError):
    """A language or embedding model cannot be loaded or used."""


class EngineUnavailableError(ModelError):
    """The engine that computes the rows did not answer until a public deadline.

    Engines raise it, always with this message and without a cause: what a server or a worker says
    may quote or count what it was given. An answer that has begun ends there
    (``stopped_by="unavailable"``); before that nothing is spent but, where a reader did not answer,
    the search.
    """

    def __init__(self) -> None:
        super().__init__(
            "the language model's engine did not answer in time; see that its server or workers "
            "run, then ask again"
        )


class CorpusError(DPICLError):
    """A corpus does not exist, or cannot be used the way it was asked."""


class LoaderError(DPICLError):
    """A path does not exist or holds nothing that a loader can read."""


class LedgerError(DPICLError):
    """The ledger file is missing, damaged, or of an unknown version."""


class KeyFileError(DPICLError):
    """The file of API keys cannot be read or written."""


class KnowledgeError(DPICLError):
    """A source of public knowledge, such as the memory of answers, cannot be used."""


class DeltaSpentError(DPICLError):
    """A budget has no delta left for the thresholds of answers by agreement.

    Nothing is spent, and no document was read; that none is left is public.
    """

    def __init__(self) -> None:
        super().__init__(
            "the budget has no delta left for thresholds: set more of it apart "
            "(`dpicl-rag budget set --thresholds 0.5`), or use agreement='auto', which draws tokens"
        )


class StoppedError(DPICLError):
    """Work was ended between two of its steps: nothing was released.

    Args:
        why: Public, such as "the server is going down".

    Attributes:
        rho: zCDP rho that it was charged until then: a search that counts is paid for before
            documents are read. Public.
    """

    rho = 0.0

    def __str__(self) -> str:
        cost = f"it cost rho {self.rho:.4g}" if self.rho else "it cost nothing"
        return f"{self.args[0]}; nothing was released, and {cost}"


class BudgetExceededError(DPICLError):
    """A budget cannot pay for the request; nothing was run and nothing was released.

    Args:
        requested: zCDP rho that the request would reserve.
        remaining: zCDP rho left in the scope. Public: scopes are corpora and callers, never units.
        scope: What the budget belongs to, for example ``corpus 'mail'``.
        epsilons: The two as epsilon at a delta of 1e-5.
        renews_on: When it does; None for a lifetime.
    """

    def __init__(
        self,
        requested: float,
        remaining: float,
        scope: str,
        epsilons: tuple[float, float],
        renews_on: date | None = None,
    ) -> None:
        asked, left = epsilons
        wait = "" if renews_on is None else f", or wait until it renews on {renews_on}"
        super().__init__(
            f"the budget of {scope} cannot pay: epsilon {asked:.3g} was asked for and {left:.3g} "
            f"can be paid (at delta 1e-05; zCDP rho {requested:.3g} and {remaining:.3g}); ask "
            f"with a smaller epsilon, or raise the budget with `dpicl-rag budget set`{wait}"
        )
        self.requested = requested
        self.remaining = remaining
        self.scope = scope
