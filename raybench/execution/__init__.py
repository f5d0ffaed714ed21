"""Where ranks run: a run from its plan to its result, placed by Ray and watched by a process without Ray."""
