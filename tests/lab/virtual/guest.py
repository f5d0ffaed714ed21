"""What runs inside a machine from its first instruction on: initramfs, init, settings from the kernel's line."""

# /own is what one machine has beside the image: see machine.py
INITRAMFS_INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t devtmpfs dev /dev; $B mount -t proc proc /proc; $B mount -t sysfs sys /sys
cd /lib
for module in $($B cat order); do $B insmod $module; done
tries=0; while [ ! -b /dev/vda ] && [ $tries -lt 200 ]; do $B sleep 0.05; tries=$((tries+1)); done
$B mount -t ext4 -o ro /dev/vda /ro || exec $B sh
$B mount -t tmpfs -o size=75% rw /rw; $B mkdir /rw/upper /rw/work
$B mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work root /newroot
$B cp -a /own/. /newroot/
$B mount --move /dev /newroot/dev; $B umount /proc; $B umount /sys
exec $B switch_root /newroot /usr/sbin/lab-init
"""

INIT = """#!/bin/bash
mount -t proc proc /proc; mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs run /run
ln -sfn /proc/self/fd /dev/fd
ulimit -l unlimited; ulimit -n 65536
/usr/sbin/lab-setup
while :; do wait; sleep 60; done
"""

# lab.host, lab.ssh and lab.fabric (addresses), lab.mtu, lab.shares (folders of this machine, read only) stand on the
# kernel's command line. Without lab.fabric there is no RDMA device.
SETUP = """#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for word in $(cat /proc/cmdline); do
    case $word in lab.*=*) name=${word%%=*}; name=${name#lab.}; declare "lab_$name=${word#*=}";; esac
done
hostname $lab_host; echo $lab_host > /etc/hostname; echo "127.0.0.1 localhost $lab_host" > /etc/hosts
chmod 1777 /tmp; chown -R root:root /root/.ssh; chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys
ip link set lo up
ip addr add $lab_ssh dev eth0; ip link set eth0 up
if [ -n "$lab_fabric" ]; then
    ip addr add $lab_fabric dev eth1; ip link set eth1 mtu $lab_mtu up
    modprobe -a crc32_generic rdma_rxe ib_uverbs ib_umad rdma_ucm
    rdma link add rxe0 type rxe netdev eth1
fi
[ -z "$lab_shares" ] || modprobe -a 9pnet_virtio 9p
number=0
for path in ${lab_shares//,/ }; do
    mkdir -p $path
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 share$number $path
    number=$((number+1))
done
mkdir -p /run/sshd; /usr/sbin/sshd
echo "LAB ready" > /dev/console
"""
