"""Results shown: terminal, HTML, CSV, Markdown. Sees results, statistics, stability and findings only."""
