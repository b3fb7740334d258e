"""Code that several parts of the console share: forms, lists and downloads, charts, wording."""
