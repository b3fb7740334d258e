_Entry = tuple[str | None, dict[str, list[bytes]]]
_End = tuple[int, str, bytes, bytes, list[tuple[str, bool, bytes | None]]]

def attach(path: str, type: type, /) -> None: ...
def receive(
    connection: object, message: int, whole: bool, seconds: float, /
) -> tuple[list[_Entry], _End | None] | None: ...
