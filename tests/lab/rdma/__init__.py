"""Machines with a real RDMA device: Soft-RoCE (rdma_rxe) in QEMU without KVM, since the kernel here may have no RDMA.

``with RdmaLab(nodes=3, image=build_image(folder)) as lab`` boots them; what they measure is EMULATED and slow. Building
the image takes some minutes and 700 MB, so these tests run only where ``RAYBENCH_RDMA_LAB`` names a folder for it.
"""
