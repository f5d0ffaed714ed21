"""Literals are found wherever they stand in a text, whatever their length, exactly those that are there."""

import random

import pytest

from diagnostics.parsers import BODY_PATTERNS, FOREIGN_PATTERNS, PATTERNS
from diagnostics.parsers.base import Table
from diagnostics.parsers.literal_index import LiteralIndex


@pytest.mark.parametrize("table", [PATTERNS, FOREIGN_PATTERNS, BODY_PATTERNS], ids=["own", "foreign", "bodies"])
def test_patterns_of_a_table_are_those_whose_literal_is_there(table: Table) -> None:
    dice = random.Random(12)
    for pattern in dice.sample(table, 60):
        text = f"{'é' * dice.randrange(4)}{'x' * dice.randrange(9)}{dice.choice(pattern.samples)}"
        for one in (text, text[: dice.randrange(len(text))], text[dice.randrange(len(text)) :]):
            assert table.worth_trying(one) == [pattern for pattern in table if pattern.literal in one]


def test_a_literal_is_found_at_every_place_of_a_text_and_a_piece_of_it_is_not() -> None:
    literals = [b"radient", b"NCCL failure", b"rror", b"", b"\xff\xfe\x00\x01\x02\x03\x04"]
    index = LiteralIndex(literals)
    for number, literal in enumerate(literals):
        for before in range(9):
            for behind in range(9):
                text = b"." * before + literal + b"." * behind
                assert index.numbers_in(text) == sorted({number, 3})
                if len(literal) > 1:
                    assert index.numbers_in(text.replace(literal, literal[:-1])) == [3]
    assert LiteralIndex(literals[:2]).any_in(b"a gradient")
    assert not LiteralIndex(literals[:2]).any_in(b"a gradien")
    assert not LiteralIndex([]).any_in(b"x")
