"""A real API server of Kubernetes on loopback, without nodes: kube-apiserver and etcd."""
