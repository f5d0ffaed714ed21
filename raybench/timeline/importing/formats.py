"""The formats that samples are imported from: a format is a line here. A file is taken for the first that it may be."""

from raybench.timeline.importing.agent import AGENT
from raybench.timeline.importing.dmon import DCGMI_DMON, DMON
from raybench.timeline.importing.prometheus import RANGE_QUERY, TEXT
from raybench.timeline.importing.sample import Format, ImportedFileError

FORMATS: tuple[Format, ...] = (RANGE_QUERY, DCGMI_DMON, DMON, TEXT, AGENT)


def format_of(text: str, where: str) -> Format:
    """What a file is. Raises ImportedFileError for one of no format that is known."""
    found = next((one for one in FORMATS if one.is_it(text)), None)
    if found is None:
        titles = ", ".join(one.title for one in FORMATS)
        raise ImportedFileError(f"{where} is none of: {titles}")
    return found
