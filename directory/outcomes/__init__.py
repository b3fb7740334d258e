"""How a recorded write is sent; whether it was applied when its answer was lost, and whose a change was.

What is to be written, and who may, is decided above (`directory.changes`, the pipeline, the runs).
"""
