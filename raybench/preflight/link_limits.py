"""What a link may have of bit errors, and the speeds of InfiniBand: for a host's own ports and for a whole fabric."""

from collections.abc import Mapping

# Bit error rates above which a link is worth a look, or is to be mended. Behind the error correction InfiniBand allows
# 1e-12; before it PAM4 links live with 1e-6, and the correction gives out near 2e-4 (IEEE 802.3, KP4).
_BEHIND_CORRECTION = (1e-14, 1e-12)
BIT_ERROR_LIMITS: Mapping[str, tuple[float, float]] = {
    "symbol": _BEHIND_CORRECTION,
    "effective": _BEHIND_CORRECTION,
    "raw": (1e-5, 1e-4),
}
INFINIBAND_SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")  # the slowest first
