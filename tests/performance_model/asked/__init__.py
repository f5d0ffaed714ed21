"""Published trainings, asked as somebody who had seen neither an estimate nor its code wrote them down."""
