"""Machines with a real RDMA device: Soft-RoCE (rdma_rxe) in QEMU without KVM, since the kernel here may have no RDMA.

``with RdmaLab(nodes=4, image=build_image(folder)) as lab`` boots them; what they measure is EMULATED and slow. Building
the image takes one to two minutes and 400 MB, booting four machines half a minute, a fabric test between them two: so
these tests run only where ``RAYBENCH_RDMA_LAB`` names a folder for the image::

    RAYBENCH_RDMA_LAB=/var/tmp/rdma-lab python -m pytest tests/lab/rdma
"""
