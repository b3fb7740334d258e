"""How any search is run: its filter judged, its area confined, its matches ordered, paged and made into records.

Which searches there are is said in records of `definitions`.
"""
