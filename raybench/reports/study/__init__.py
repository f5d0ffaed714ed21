"""A study on a terminal and as a page: sections, plots, one screen. Reads `raybench.documents.study` only."""
