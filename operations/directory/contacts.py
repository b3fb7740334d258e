"""Operations on contacts: those that every kind has."""

from directory.shapes.inputs import CreateContact, UpdateContact
from operations.directory.common_operations import declare_ordinary_operations

declare_ordinary_operations("contacts", create=CreateContact, update=UpdateContact)
