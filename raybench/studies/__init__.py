"""Several runs, one question: plan them, do them in an order that drift cannot favour, and compare what came of them."""
