"""The console: pages for the people who decide, administer and look things up. Their templates: `templates/console/`.

A page is a thin function. It calls operations through the same pipeline as every other surface (`PageContext.perform`),
so it can show nothing that `/rest` would refuse. It validates no form either: the operation refuses, and the page shows
the refusal beside the field. Each part of the menu has a module.
"""
