"""What was seen, by job, communicator and process. No judgement here."""

from diagnostics.events import ProcessKey
from diagnostics.facts.communicator import (
    MAX_COLLECTIVES,
    MAX_COMMUNICATORS,
    MAX_MEMBERS,
    MAX_START_EVENTS,
    Channel,
    CollectiveLog,
    Communicator,
    Member,
    collective_form,
)
from diagnostics.facts.flight_record import FlightRecord
from diagnostics.facts.job import MAX_EVENTS, JobFacts, asked_once
from diagnostics.facts.process import MAX_PROCESSES, Device, Process, read_devices, version_numbers

__all__ = [
    "MAX_COLLECTIVES",
    "MAX_COMMUNICATORS",
    "MAX_EVENTS",
    "MAX_MEMBERS",
    "MAX_PROCESSES",
    "MAX_START_EVENTS",
    "Channel",
    "CollectiveLog",
    "Communicator",
    "Device",
    "FlightRecord",
    "JobFacts",
    "Member",
    "Process",
    "ProcessKey",
    "asked_once",
    "collective_form",
    "read_devices",
    "version_numbers",
]
