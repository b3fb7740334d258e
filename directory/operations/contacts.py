"""Operations on contacts: those that every kind has."""

from directory.operations.ordinary import declare_ordinary_operations
from directory.shapes.inputs import CreateContact, UpdateContact

declare_ordinary_operations("contacts", create=CreateContact, update=UpdateContact)
