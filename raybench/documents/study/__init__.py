"""The documents of a study: its plan (``plan.json``) and its result (``study.json``), with an answer for each kind."""
