"""Parts: units that turn out to be one, and that become units by themselves again.

A late reply joins two threads. The unit that goes is then part of the one that stays, and that one
has spent what `joint` says, which is more than the sum.

An owner may undo a join, for example one that a stranger's mail has caused. What has each part lost
then? Let p be a part, t the time at which it first became part of a larger unit J, and p0 what it
had spent until then, as a unit by itself. Its row in the table ``part`` keeps p0, the sums of the
scope at t, and what J had spent when p had joined it.

*Answers after t heard J.* Without p they would have heard J' = J without p, another unit: an
expert has changed. Its utilities move by at most the two ranges together, so an answer that cost J
the amount c cost p at most (sqrt c + sqrt c')^2, where c' is what J' would have paid: no more than
the individual bound b of that answer, which is public. Over all answers, by Cauchy and Schwarz, p
has lost at most joint(C, I): C what J has paid since t, I the sum of the bounds b since t. As no
answer costs a unit more than its bound, C may be taken as I where it is not known as well; so this
is never more than 4 I. Units that join J later raise its spend by more than it had, never less, so
the growth of the spend of p's root since t is at least C, through any chain of joins.

*Answers at a fixed price f* cost p up to (sqrt f + sqrt f)^2 = 4 f for the same reason. One f is
paid by every unit anyway, so p pays 3 F beside, F their sum since t.

    p now:  p0 + joint(min(C, I), I) + 3 F

Without an answer since t that is p0, exactly. Answers in progress count with all that they hold,
and so do those that were in progress at t. What J still pays when they settle comes on top.

*What remains of J* without the parts that go is a unit R that was changed, too: with R out of the
corpus, the same answers would have heard the parts that went. Their part of J is bounded in the
same way, and the roots of the sums add up (Minkowski): where S is what J has spent, A all answers
at a fixed price, and I and F are sums since the first of R met the first that goes,

    R now:  joint(A + S, I + F) - A

The bound holds for every subset of J. So a unit that is left alone keeps its row in ``part``: it
may be given back its own past later, and then gets the lesser of the two.

A period counts in the same way what falls into it: sums since t that are no more than the period's.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger import ledger_units
from dpicl_rag.ledger.budgets import Period, Usage
from dpicl_rag.ledger.ledger_schema import whole
from dpicl_rag.ledger.ledger_units import MOST, UnitKey, UnitSpend, joint
from dpicl_rag.ledger.scope import Scope, payers

_PARTS = (
    "SELECT unit.id, part.spent, part.period_start, part.period_spent, part.joint, part.fixed,"  # noqa: S608 - constants
    f" part.individual, {whole('part')} FROM unit JOIN part ON part.unit = unit.id"
    " WHERE unit.id = :root OR unit.merged_into = :root ORDER BY unit.id"
)
_ROOT = f"SELECT spent, period_start, period_spent, {whole('unit')} FROM unit WHERE id = ?"  # noqa: S608
_SET = (
    "UPDATE unit SET spent = ?, period_start = ?, period_spent = ?, merged_into = NULL WHERE id = ?"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A row of the table: a unit's own spend, and the sums of the scope when it joined."""

    alone: UnitSpend
    joint: int
    then: Usage


@dataclass(frozen=True, slots=True)
class _Scale:
    """Sums that count for one budget of a scope: for life, or in its period.

    Attributes:
        usage: Sums over all answers.
        spent: What the joint unit has spent.
    """

    usage: Usage
    spent: int

    def since(self, then: Usage, life: Usage) -> Usage:
        """Sums over answers that were given since; ``then`` and ``life`` are sums for life."""
        return Usage(
            min(self.usage.fixed, life.fixed - then.fixed),
            min(self.usage.individual, life.individual - then.individual),
        )


def merge(
    connection: sqlite3.Connection,
    key: UnitKey,
    corpus: str,
    survivors: Mapping[str, str],
    day: int,
) -> None:
    """Make units one in every scope that pays for a corpus; again, nothing happens.

    Args:
        connection: In a transaction.
        key: Of the ledger.
        corpus: Name of the corpus.
        survivors: For each unit that goes, the one that stays.
        day: The UTC day.
    """
    for scope in payers(connection, corpus):
        for goes, stays in survivors.items():
            hashes = [key.digests(scope.name, [unit])[0] for unit in (stays, goes)]
            _merge(connection, scope, hashes, day)


def separate(
    connection: sqlite3.Connection, key: UnitKey, corpus: str, units: Sequence[str], day: int
) -> None:
    """Make parts of larger units units by themselves in every scope that pays for a corpus.

    Args:
        connection: In a transaction.
        key: Of the ledger.
        corpus: Name of the corpus.
        units: The parts; others are left as they are.
        day: The UTC day.
    """
    for scope in payers(connection, corpus):
        leaving: defaultdict[int, set[int]] = defaultdict(set)
        for digest in key.digests(scope.name, units):
            found = ledger_units.find(connection, scope, digest)
            if found is not None:
                leaving[found.root].add(found.unit)
        for root, those in leaving.items():
            _leave(connection, scope, root, those, day)


def _merge(connection: sqlite3.Connection, scope: Scope, hashes: Sequence[bytes], day: int) -> None:
    """Make two units one, under the name of the first.

    Answers at a fixed price cost each of the two the same, and their rows do not show it. So it is
    taken into the joint sum, and what the one unit pays by itself anyway is taken out again.
    """
    found = [ledger_units.find_or_add(connection, scope, digest) for digest in hashes]
    stays, goes = (unit.root for unit in found)
    if stays == goes:
        return
    start = scope.period.start(day)
    fixed = _of_life(scope).usage(connection, day, held=True).fixed
    fixed_now = scope.usage(connection, day, held=True).fixed
    spent = joint(fixed + unit.spend.life for unit in found) - fixed
    spent_now = joint(fixed_now + unit.spend.since(start) for unit in found) - fixed_now
    _record(connection, scope, [(unit.root, unit.spend) for unit in found], spent)
    connection.execute(_SET, (spent, start, spent_now, stays))
    connection.execute(
        "UPDATE unit SET spent = 0, period_spent = 0, merged_into = :stays"
        " WHERE id = :goes OR merged_into = :goes",
        {"stays": stays, "goes": goes},
    )


def _leave(
    connection: sqlite3.Connection, scope: Scope, root: int, units: set[int], day: int
) -> None:
    parts = _read(connection, root)
    units &= parts.keys()
    if not units:
        return  # it was never joined, or is separate again
    start = scope.period.start(day)
    own = _own(connection, root)
    held = ledger_units.held(connection, root)
    life = _of_life(scope).usage(connection, day, held=True)
    ever = _Scale(life, own.life + held)
    period = _Scale(scope.usage(connection, day, held=True), own.since(start) + held)
    for unit in units:
        part = parts[unit]
        paid = max(0, ever.spent - part.joint)
        spent = _apart(part.alone.life, ever.since(part.then, life), paid)
        spent_now = _apart(
            part.alone.since(start), period.since(part.then, life), min(paid, period.spent)
        )
        if len(parts) == 1:
            spent, spent_now = min(spent, own.life), min(spent_now, own.since(start))
        connection.execute(_SET, (spent, start, spent_now, unit))
        connection.execute("DELETE FROM part WHERE unit = ?", (unit,))
    stay = parts.keys() - units
    if stay:
        met = _each(max, (_each(min, (parts[u].then for u in group)) for group in (units, stay)))
        spent, spent_now = (_remaining(scale, scale.since(met, life)) for scale in (ever, period))
        head = root if root in stay else min(stay)
        connection.execute(_SET, (spent, start, spent_now, head))
        connection.executemany(
            "UPDATE unit SET merged_into = ? WHERE id = ?",
            [(head, unit) for unit in sorted(stay - {head})],
        )


def _apart(own: int, since: Usage, paid: int) -> int:
    """Spend of a part that had spent ``own`` before it was joined."""
    heard = joint([min(paid, since.individual), since.individual])
    return min(own + heard + 3 * since.fixed, MOST)


def _remaining(scale: _Scale, since: Usage) -> int:
    """Spend of the remainder of a joint unit."""
    paid = scale.usage.fixed + scale.spent
    return joint([paid, since.individual + since.fixed]) - scale.usage.fixed


def _each(choose: Callable[[Iterable[int]], int], sums: Iterable[Usage]) -> Usage:
    """The earlier sums of several by ``min``, the later ones by ``max``."""
    found = list(sums)
    return Usage(choose(s.fixed for s in found), choose(s.individual for s in found))


def _of_life(scope: Scope) -> Scope:
    return replace(scope, period=Period.LIFETIME)


def _record(
    connection: sqlite3.Connection,
    scope: Scope,
    units: Iterable[tuple[int, UnitSpend]],
    together: int,
) -> None:
    """Keep the spend of units before they become part of a larger one; once for each."""
    settled = scope.settled(connection)  # those in progress count as given since
    sums = (together, min(settled.fixed, MOST), min(settled.individual, MOST))
    connection.executemany(
        "INSERT OR IGNORE INTO part (unit, spent, period_start, period_spent, joint, fixed,"
        " individual) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(unit, own.life, own.start, own.in_period, *sums) for unit, own in units],
    )


def _own(connection: sqlite3.Connection, root: int) -> UnitSpend:
    *spent, sound = connection.execute(_ROOT, (root,)).fetchone()
    require_whole(sound)
    return UnitSpend(*spent)


def _read(connection: sqlite3.Connection, root: int) -> dict[int, _Part]:
    """The parts of a unit that are in the table, by row."""
    found = {}
    for unit, spent, start, in_period, together, fixed, individual, sound in connection.execute(
        _PARTS, {"root": root}
    ):
        require_whole(sound)
        alone = UnitSpend(spent, start, in_period)
        found[unit] = _Part(alone, together, Usage(fixed, individual))
    return found
