"""Running searches: check the filter, confine the area, order and page the matches, make records of them.

`definitions` declares the searches.
"""
