"""Virtual machines: QEMU without KVM, so emulated and slow, with a kernel, a boot id and a power button of their own.

``tests/lab/rdma`` joins some with Soft-RoCE devices; ``host.py`` makes one a host beside the namespaces of a lab. Both
run only where ``RAYBENCH_RDMA_LAB`` names a folder for the image, which is built there at the first time.
"""
