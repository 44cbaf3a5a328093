"""`dpicl_rag.accounting` offers its names without loading what they need."""

import subprocess
import sys

from dpicl_rag import accounting


def test_every_public_name_resolves() -> None:
    for name in accounting.__all__:
        assert getattr(accounting, name) is not None
    assert len(set(accounting.__all__)) == len(accounting.__all__)


def test_importing_it_loads_no_large_library() -> None:
    code = (
        "import sys, dpicl_rag.accounting\n"
        "heavy = {'torch', 'scipy', 'dp_accounting', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
