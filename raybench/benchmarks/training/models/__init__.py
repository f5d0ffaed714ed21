"""The models that are trained: shapes, parameters, number types, weights and adapters."""
