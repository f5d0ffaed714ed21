"""Numbers that documents hold, with the bounds beyond which one is damage."""

from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, lt=1e12)]
PositiveSeconds = Annotated[float, Meta(gt=0, lt=1e12)]
