"""A small text to learn, byte by byte: sentences and sums of a little grammar, the same everywhere. No torch.

Made on the spot, so that nothing is fetched and nobody's licence asks for anything. A model that learns gets from
ln(vocabulary) to about 1 nat a byte in some hundred steps: words and endings are certain, which word comes next is not.
"""

import random

CORPUS_BYTES = 2**19
_NOUNS = ("rank", "node", "switch", "cable", "kernel", "buffer", "gradient", "ring", "tree", "link", "queue", "port")
_ADJECTIVES = ("slow", "quick", "large", "small", "warm", "idle", "busy", "spare", "third", "last")
_VERBS = ("waits for", "sends to", "reads from", "reduces", "gathers", "leaves", "follows", "measures")
_PLACES = ("behind", "beside", "above", "before")


def corpus_text(byte_count: int = CORPUS_BYTES) -> bytes:
    """Sentences of ASCII, a line each, cut at ``byte_count``."""
    chosen = random.Random(0)
    lines, size = [], 0
    while size < byte_count:
        lines.append(_sum(chosen) if chosen.random() < 0.25 else _sentence(chosen))
        size += len(lines[-1]) + 1
    return "\n".join(lines).encode("ascii")[:byte_count]


def _sentence(chosen: random.Random) -> str:
    words = ["the", chosen.choice(_ADJECTIVES), chosen.choice(_NOUNS), chosen.choice(_VERBS), "the"]
    words.append(chosen.choice(_NOUNS))
    if chosen.random() < 0.5:
        words += [chosen.choice(_PLACES), "the", chosen.choice(_NOUNS)]
    return " ".join(words) + "."


def _sum(chosen: random.Random) -> str:
    first, second = chosen.randrange(10), chosen.randrange(10)
    return f"{first} and {second} are {first + second}."
