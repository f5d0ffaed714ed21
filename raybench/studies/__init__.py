"""Several runs, one question: planned, done in an order that drift cannot favour, and compared."""
