

def differences(check: Check) -> float | None:
    """The largest relative difference of a loss or norm from the reference; None where there is none."""
    pairs = [
        *zip(check.losses, check.expected_losses, strict=True),
        *zip(check.gradient_norms, check.expected_gradient_norms, strict=True),
    ]
    if not check.expected_losses:
        return None
    return max(_relative(found, expected) for found, expected in pairs)


def _relative(found: float, expected: float) -> float:
    difference = abs(found - expected) / max(abs(expected), 1e-12)
    return difference if difference == difference else float("inf")  # noqa: PLR0124 - NaN is not near anything
