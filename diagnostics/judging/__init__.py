"""From facts to the diagnosis: rules are asked, causes are put before consequences, the verdict is said."""
