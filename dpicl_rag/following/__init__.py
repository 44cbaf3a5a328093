"""Following: corpora that are brought up to date with where their documents are."""
