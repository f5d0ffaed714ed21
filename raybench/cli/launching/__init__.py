"""``raybench launch``, a module a scheduler."""
