"""The surfaces for programs: they translate between HTTP and the pipeline, and know no operation by name."""
