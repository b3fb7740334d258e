"""The surfaces for programs. They translate between HTTP and the pipeline, and know no operation by name."""
