"""A release on disk: drawn once, whatever ends the process."""

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.tabular import charge
from dpicl_rag.tabular.charge import kept_release
from dpicl_rag.tabular.noisy_tables import release_tables, tables_charge
from tests.support.private_rows import BASE, SCHEMA


@pytest.fixture
def draws(tmp_path):
    """Draw, and how often it was done; each is booked."""
    price = tables_charge(SCHEMA, 1.0).rho

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=10.0)

        def draw():
            return release_tables(BASE, SCHEMA, 1.0, ledger=ledger).to_json()

        draw.times = lambda: round(ledger.status()[0].spent / price)
        yield draw


def test_it_is_paid_once(draws, tmp_path):
    first = kept_release(tmp_path / "run", {"a": 1}, draws)
    again = kept_release(tmp_path / "run", {"a": 1}, draws)
    assert first == again
    assert draws.times() == 1


def test_a_kill_before_the_writing_costs_one_release_and_shows_none(draws, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(charge, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            kept_release(tmp_path / "run", {"a": 1}, draws)
    kept_release(tmp_path / "run", {"a": 1}, draws)
    assert draws.times() == 2


def test_other_settings_and_damage_are_refused(draws, tmp_path):
    kept_release(tmp_path / "run", {"a": 1, "b": 2}, draws)
    with pytest.raises(ConfigurationError, match=r"other settings \(a, c\)"):
        kept_release(tmp_path / "run", {"a": 2, "b": 2, "c": 3}, draws)
    (tmp_path / "run" / "release.json").write_text("[]")
    with pytest.raises(ConfigurationError, match="damaged"):
        kept_release(tmp_path / "run", {"a": 1, "b": 2}, draws)
    assert draws.times() == 1
