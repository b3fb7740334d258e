"""The record of a deleted object: that of a directory object, and what is known of its deletion."""

from typing_extensions import TypedDict

from core.shapes import Moment
from directory.shapes.record import DirectoryObject


class Deletion(TypedDict):
    """What is known of an object's deletion.

    `deletedAt` is when the object last changed: a deleted one does not, except by its deletion. `lastKnownParent` is a
    distinguished name; that of a parent which was deleted itself points to the container of deleted objects.
    `recyclable` is false for a tombstone, which has lost most attributes, its memberships and its password.
    """

    deletedAt: Moment | None
    lastKnownParent: str | None
    lastKnownName: str
    recyclable: bool


class DeletedObject(DirectoryObject, Deletion):
    """A deleted object. Its name and distinguished name are those the directory gave it at the deletion."""
