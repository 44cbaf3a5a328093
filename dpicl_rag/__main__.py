"""``python -m dpicl_rag``: the command line."""

from dpicl_rag.cli import main

if __name__ == "__main__":
    main()
