"""MLX's ring in place of a backend of torch.distributed: the same messages, sent by ``mlx.core.distributed``."""
