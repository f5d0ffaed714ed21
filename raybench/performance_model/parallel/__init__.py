"""Models that are cut over ranks: by tensor, context, pipeline and expert, beside what data parallelism shards."""
