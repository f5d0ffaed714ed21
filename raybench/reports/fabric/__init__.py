"""How a fabric test is shown. Reads the report, schema raybench.fabric/1."""
