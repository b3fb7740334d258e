"""The console: pages for the people who decide, administer and look things up. `templates/console/` has their looks.

A page is a thin function. Whatever it shows or does, it asks of an operation, through the same pipeline as every other
surface (`PageContext.perform`): so a page can show nothing that `/rest` would refuse. Forms are not validated here
either; the operation refuses, and the page shows the refusal beside its fields. One module per part of the menu.
"""
