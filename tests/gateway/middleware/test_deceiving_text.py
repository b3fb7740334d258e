"""What pages show of text that deceives: marked where people read it, and sent back by forms as it was."""

import pytest

from gateway.middleware.deceiving_text import mark_deceiving_text

PAGES = (
    ("<p>x\u202ey</p>", "<p>x⟨U+202E⟩y</p>"),
    ("<title>x\u200by עדה</title>", "<title>x⟨U+200B⟩y עדה</title>"),
    ('<a title="x\u202ey" data-copy="x\u202ey">', '<a title="x⟨U+202E⟩y" data-copy="x&#x202E;y">'),
    ('<input value="x\u202ey">', '<input value="x&#x202E;y">'),
    ("<textarea name=a>x\u202ey</textarea>", "<textarea name=a>x&#x202E;y</textarea>"),
    ('<option value="\u200b">x\u200b עדה</option>', '<option value="&#x200B;">x⟨U+200B⟩ עדה</option>'),
    ('<script>"\U000e0041"</script>', '<script>"\\udb40\\udc41"</script>'),
    ("CN=עדה כהן,OU=מכירות 5", "CN=<bdi>עדה כהן</bdi>,OU=<bdi>מכירות</bdi> 5"),
    ("a < b\u202e", "a < b⟨U+202E⟩"),
    ("<!-- \u202e --><br>", "<!-- ⟨U+202E⟩ --><br>"),
)


@pytest.mark.parametrize(("page", "shown"), PAGES)
def test_a_page(page: str, shown: str) -> None:
    assert mark_deceiving_text(page) == shown


@pytest.mark.parametrize("page", ["<p>Zoë — “O’Hara” → 阿達</p>", '<a title="Ада">3\u00a0MB</a>'])
def test_other_text_is_left_as_it_is(page: str) -> None:
    assert mark_deceiving_text(page) == page
