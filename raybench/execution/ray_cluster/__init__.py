"""Ray: clusters found, joined or embedded, and calls that end where the cluster has gone."""
