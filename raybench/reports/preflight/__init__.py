"""How a preflight is shown."""
