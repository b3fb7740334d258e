"""The OpenAPI documents, one per surface: each operation described from its record, by drf-spectacular's generator.

Shapes describe themselves through pydantic, so nothing is written twice. Requests are served in `viewsets`, not here.
"""
