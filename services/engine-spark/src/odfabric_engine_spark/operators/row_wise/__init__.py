"""Row-wise queries: project, filter, explode, union all."""
