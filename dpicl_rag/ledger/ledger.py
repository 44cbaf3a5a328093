"""The ledger: budgets of corpora, callers and units in one file."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpicl_rag.accounting import DELTA
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.database import Database
from dpicl_rag.ledger import entries, ledger_schema, ledger_units, parts
from dpicl_rag.ledger.budgets import Period, ScopeStatus, budgets, day_of, warn_of_no_budget
from dpicl_rag.ledger.fixed_point import charge, exact, exact_delta
from dpicl_rag.ledger.ledger_units import require_units
from dpicl_rag.ledger.reservation import Reservation
from dpicl_rag.ledger.scope import (
    Scope,
    ScopeKind,
    every_scope,
    find_or_add,
    note_payer,
    require_name,
    units_charged,
)


class Ledger:
    """Keeps the spend of every corpus, caller and privacy unit, in zCDP rho.

    An answer reserves the most it may spend, commits what each token costs before the token is
    released, and gets the rest back. A kill at any instant leaves every released token paid for;
    what a dead process still held is given back by the next one that opens the ledger or reserves.
    Threads and processes may share a file; together they never spend more than a budget.

    Budgets of a corpus bound what any one unit loses: fixed answers cost every unit the same,
    individual answers cost each unit what it reveals. ``budgets.py`` derives how the two add up.
    A caller's budget is charged the public bound of each answer, over all corpora.

    What a unit has spent is private. The file holds it under keyed hashes, is readable by its
    owner only, and nothing here shows it, save `Reservation.limits` to the mechanism. Keep the key
    (``<path>.key``) and the file together in backups: without either, budgets would start anew.

    Args:
        path: The SQLite file, on a local disk; made if missing, with its folder.
        key: Secret of 16 bytes or more for the hashes of units. By default it is made and kept in
            ``<path>.key`` with mode 0600.
        stale_after: Seconds without a commit after which a reservation counts as abandoned, if its
            process cannot be looked up: it ran in another container, or before a reboot.
        busy_timeout: Seconds to wait for other processes before a call fails.
        clock: Unix time in seconds; for tests.

    Raises:
        LedgerError: The file or its key cannot be used; the message says what to do.
        ConfigurationError: A parameter is outside its range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: bytes | None = None,
        stale_after: float = 3600.0,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._closed = True
        if not stale_after > 0 or not 0 < busy_timeout < 1e6:
            raise ConfigurationError("stale_after and busy_timeout must be positive seconds")
        try:
            self._path = Path(path).expanduser().resolve()
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError, RuntimeError):
            raise LedgerError(
                "the folder of the ledger cannot be made; check the path and its permissions"
            ) from None
        self._stale_after = stale_after
        self._clock = clock
        self._session = secrets.randbits(62)
        self._abandoned: deque[int] = deque()
        self._warned: set[str] = set()
        self._database = Database(self._path, ledger_schema.LEDGER, busy_timeout=busy_timeout)
        try:
            self._database.make_ready(self._make)
            # After the tables: a key beside a file without tables then means that it was lost.
            self._key = ledger_units.settle_key(self._database, key)
            self._closed = False
            if self._database.read(
                lambda connection: entries.find_stale(connection, int(clock()), stale_after)
            ):
                self.settle_stale()
        except BaseException:
            self._closed = True
            self._database.close()
            raise

    def set_budget(
        self,
        *,
        corpus: str | None = None,
        caller: str | None = None,
        rho: float | None = None,
        epsilon: float | None = None,
        unit_rho: float | None = None,
        unit_epsilon: float | None = None,
        delta: float = DELTA,
        thresholds: float = SHARES.threshold_pool,
        answers: int = SHARES.answers,
        gaussian: bool = False,
        period: Period | str = Period.LIFETIME,
        strict: bool = False,
        only_if_none: bool = False,
    ) -> None:
        """Set all budgets of one corpus or one caller, in place of those it had.

        What was spent stays spent. Under a budget below that, fixed answers are refused until it
        renews, and individual ones come from units that have spent less; ``strict`` refuses both.

        Args:
            corpus: The corpus; give either this or ``caller``.
            caller: The caller.
            rho: zCDP rho per period; ``math.inf`` for no limit (spend is recorded all the same).
            epsilon: In place of ``rho``: over a period all answers together are (epsilon,
                delta)-DP. The file keeps it as rho, which adds up.
            unit_rho: The part of ``rho`` that a unit may spend on individual answers; all of it by
                default. Only for a corpus.
            unit_epsilon: The same part as epsilon at ``delta``.
            delta: Delta of ``epsilon`` and ``unit_epsilon``, strictly between 0 and 1.
            thresholds: The part of ``delta`` that thresholds of answers by agreement may take, 0 or
                more and below 1; epsilon is converted to rho at the rest. 0 allows none, so that
                tokens are drawn from the start.
            answers: An answer takes one part in so many of what is left of that part, so it does
                not end. Fewer have lower thresholds at first, so fewer units must agree.
            gaussian: Book answers by agreement alone, counts and surveys, whose noise is Gaussian,
                and refuse all else. Their rho adds up exactly, so the same epsilon is 13 to 18
                percent more of it.
            period: ``lifetime``, or ``day``, ``month`` or ``year`` (UTC). A renewing budget
                protects per period: over n periods a unit can lose n times as much.
            strict: Refuse every answer once the public bound has reached the budget, though units
                may have spent less. A caller's budget always does.
            only_if_none: Change nothing where there is a budget, be it an endless one.

        Raises:
            ConfigurationError: A parameter is outside its range, or ``gaussian`` comes too late:
                other noise was paid for.
            LedgerError: The file cannot be written.
        """
        if (corpus is None) == (caller is None):
            raise ConfigurationError("give a budget to one corpus or to one caller")
        kind: ScopeKind = "caller" if corpus is None else "corpus"
        name = require_name(kind, caller if corpus is None else corpus)
        given = budgets(
            rho=rho,
            epsilon=epsilon,
            unit_rho=unit_rho,
            unit_epsilon=unit_epsilon,
            delta=delta,
            thresholds=thresholds,
            answers=answers,
            gaussian=gaussian,
            period=period,
            strict=strict,
        )
        if given.unit_budget is not None and kind == "caller":
            raise ConfigurationError(
                "a unit's budget belongs to a corpus; leave unit_rho and unit_epsilon out for a "
                "caller"
            )

        def change(connection: sqlite3.Connection) -> None:
            now = int(self._clock())
            entries.set_budget(connection, kind, name, given, now, only_if_none=only_if_none)

        self._database.write(change)

    def has_budget(self, corpus: str) -> bool:
        """Presence of a budget that a corpus was ever given, be it an endless one.

        Raises:
            LedgerError: The file cannot be used.
        """
        return any(scope.has_budget for scope in self._corpora(corpus))

    def knows(self, corpus: str) -> bool:
        """Presence of a corpus of this name that was ever given a budget, or asked."""
        return bool(self._corpora(corpus))

    def units_charged(self, corpus: str) -> set[str | None]:
        """Fields of the units by which answers from a corpus were paid for; empty: none was.

        None stands for units that come with the documents.
        """
        return self._database.read(lambda connection: units_charged(connection, corpus))

    def _corpora(self, name: str) -> list[Scope]:
        """The corpus of a name, if there is one."""
        wanted = ("corpus", name)
        scopes = self._database.read(every_scope)
        return [one for one in scopes if (one.kind, one.name) == wanted]

    def reserve(
        self,
        *,
        corpus: str,
        caller: str | None = None,
        rho: float,
        at_least: float | None = None,
        delta: float = 0.0,
        units: Sequence[str] | None = None,
        source: str | None = None,
        unit_field: str | None = None,
        gaussian: bool = False,
    ) -> Reservation:
        """Hold what one answer may spend. Nothing is spent until it commits.

        With ``units`` the answer is under individual accounting: each unit gets a limit, the less
        of ``rho`` and what its own budget has left, and that much is held, so that answers at the
        same time never overspend a unit together. A unit whose budget is used up gets the limit 0;
        it never causes an error, which would tell that it is there. A unit's limit depends on its
        own history and on public numbers only, as the privacy argument of the filter needs.

        Args:
            corpus: The corpus asked. One without a budget is not limited; its spend is recorded,
                and a `NoBudgetWarning` says so once.
            caller: Who asks, if callers have budgets.
            rho: The most the answer may cost any unit, zCDP rho. Public.
            at_least: Take what is left if it is less than ``rho`` but at least this, for example
                the price of the first token. By default all of ``rho`` or nothing.
            delta: What thresholds of the answer may cost. Held whole, or not at all where a pool
                has less; that is no error, see `Reservation.delta`. Public.
            units: Privacy units of the experts, each once, for individual accounting.
            source: Name of the corpus that the documents are from, if they are from one: the
                scope that pays follows what becomes of its units, see ``scope.py``.
            unit_field: Field of their unit, of a store that is read by one: no other pays later.
            gaussian: All that it will be charged for is Gaussian noise on whole numbers.

        Returns:
            The reservation. Its ``rho`` is the bound of the answer; it is below the one asked for
            if it is partial, or if the unit budget of the corpus is.

        Raises:
            BudgetExceededError: The corpus or the caller cannot pay.
            ConfigurationError: A parameter is outside its range, a budget is for Gaussian noise, or
                answers from the source were paid for by another unit.
            LedgerError: The file cannot be used, or the clock went back under a renewing budget.
        """
        corpus_name = require_name("corpus", corpus)
        caller_name = None if caller is None else require_name("caller", caller)
        source_name = None if source is None else require_name("corpus", source)
        most = exact("rho", rho)
        least = None if at_least is None else exact("at_least", at_least)
        if least is not None and not 0 < least <= most:
            raise ConfigurationError("at_least must be above 0 and at most rho")
        request = entries.SpendRequest(
            id=secrets.randbits(62),
            session=self._session,
            corpus=corpus_name,
            caller=caller_name,
            source=source_name,
            unit_field=None if unit_field is None else require_name("unit", unit_field),
            rho=charge(most),
            at_least=None if least is None else charge(least),
            delta=exact_delta(delta),
            gaussian=gaussian,
            digests=None if units is None else self._key.digests(corpus_name, units),
        )
        # Made first: if a Ctrl-C falls after the transaction, collecting it gives all back.
        reservation = Reservation(
            self._database, self._settle, self._clock, request.id, individual=units is not None
        )

        def hold(connection: sqlite3.Connection) -> entries.Grant:
            self._settle_abandoned(connection)
            return entries.grant(connection, request, self._clock(), self._stale_after)

        grant = self._database.write(hold)
        reservation._start(grant)
        if not grant.has_budget and corpus_name not in self._warned:
            self._warned.add(corpus_name)
            warn_of_no_budget(corpus_name)
        return reservation

    def status(self) -> list[ScopeStatus]:
        """Every corpus, then every caller, by name. All of it is public.

        Raises:
            LedgerError: The file cannot be used.
        """

        def collect(connection: sqlite3.Connection) -> list[ScopeStatus]:
            day = day_of(entries.latest_time(connection, int(self._clock())))
            return [scope.status(connection, day) for scope in every_scope(connection)]

        return self._database.read(collect)

    def forget_units(self, corpus: str, units: Sequence[str]) -> None:
        """Note that units have left a corpus, for example because their owners asked.

        The corpus deletes the text. The ledger keeps what was spent, under the keyed hash and with
        today's date, because released answers cannot be taken back: a unit that returns goes on
        with the budget it had. Nothing tells whether the ledger knew the units.

        Raises:
            ConfigurationError: A parameter is outside its range.
            LedgerError: The file cannot be written.
        """
        name = require_name("corpus", corpus)
        digests = self._key.digests(name, require_units(units))

        def note(connection: sqlite3.Connection) -> None:
            scope = find_or_add(connection, "corpus", name)
            note_payer(connection, scope, name)
            ledger_units.forget(connection, scope, digests, day_of(self._clock()))

        self._database.write(note)

    def merge_units(self, corpus: str, survivors: Mapping[str, str]) -> None:
        """Note that units turned out to be one, for example threads that a late reply joins.

        What they have spent is joined, all of it or nothing. As what is now one unit took part
        several times in answers of the past, it is charged more than the sum: see ``parts.py``.
        From then on all names have one budget. To do it again changes nothing.

        Args:
            corpus: The corpus. Units are joined in the scope of this name and in those that have
                paid for its answers, see ``scope.py``; nowhere else.
            survivors: For each unit that goes, the one that it is part of now.

        Raises:
            ConfigurationError: A parameter is outside its range.
            LedgerError: The file cannot be written.
        """
        name = require_name("corpus", corpus)
        require_units([*survivors, *survivors.values()])

        def merge(connection: sqlite3.Connection) -> None:
            parts.merge(connection, self._key, name, survivors, self._today(connection))

        self._database.write(merge)

    def separate_units(self, corpus: str, units: Sequence[str]) -> None:
        """Undo joins: note that units are units by themselves again.

        Each gets back what it had spent before it was joined, and a bound on what the answers
        cost it that were given since; what remains of the joint unit is charged for having been
        changed. ``parts.py`` has the proof. Without an answer since, each has exactly what it
        had. To do it again changes nothing, and units that were never joined stay as they are.

        Separate them in the corpus first: an answer that still hears them as one is charged to
        the one whose name it has.

        Args:
            corpus: The corpus; as in `merge_units`.
            units: The parts, by name. The unit that the others became part of may be among them.

        Raises:
            ConfigurationError: A parameter is outside its range.
            LedgerError: The file cannot be written.
        """
        name = require_name("corpus", corpus)
        named = require_units(units)

        def separate(connection: sqlite3.Connection) -> None:
            parts.separate(connection, self._key, name, named, self._today(connection))

        self._database.write(separate)

    def check(self) -> None:
        """Prove that answers can be paid for: write a row, durably.

        Raises:
            LedgerError: The file cannot be written, or is no longer the one at its path; the
                message says what to do.
        """
        self._database.write(lambda c: c.execute("UPDATE ledger SET checks = checks + 1"))

    def settle_stale(self) -> int:
        """Settle what dead processes held; opening a ledger and `reserve` do so too.

        Returns:
            How many answers were settled. What they committed is spent, the rest given back.

        Raises:
            LedgerError: The file cannot be written.
        """

        def settle(connection: sqlite3.Connection) -> int:
            self._settle_abandoned(connection)
            return entries.settle_stale(connection, int(self._clock()), self._stale_after)

        return self._database.write(settle)

    def close(self) -> None:
        """Settle the reservations made here and close the file. May be called again.

        If the file cannot be written, they are settled once this process has ended.
        """
        if not self._closed:
            self._closed = True
            with contextlib.suppress(LedgerError):
                self._database.write(self._settle_session)
            self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Runs wherever the collector happens to run: never wait, and set no context variable.
        if not getattr(self, "_closed", True):
            self._database.try_write(self._settle_session)

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r})"

    def _make(self, connection: sqlite3.Connection) -> None:
        is_empty = not ledger_schema.LEDGER.version_of(connection)
        if is_empty and ledger_units.key_path(self._path).exists():
            raise LedgerError(
                f"the ledger {self._path} is gone but its key is there; restore the ledger, or "
                "remove the key as well to start with nothing spent"
            )
        ledger_schema.LEDGER.make(connection)

    def _today(self, connection: sqlite3.Connection) -> int:
        return day_of(entries.observe_clock(connection, int(self._clock())))

    def _settle(self, number: int, wait: bool) -> None:
        self._abandoned.append(number)
        settle = self._database.write if wait else self._database.try_write
        with contextlib.suppress(LedgerError):
            settle(self._settle_abandoned)

    def _settle_session(self, connection: sqlite3.Connection) -> None:
        entries.settle_session(connection, self._session, os.getpid())

    def _settle_abandoned(self, connection: sqlite3.Connection) -> None:
        # Settling twice is harmless, so numbers leave the queue when next seen to be gone.
        for number in list(self._abandoned):
            if not entries.settle(connection, number):
                with contextlib.suppress(ValueError):
                    self._abandoned.remove(number)
