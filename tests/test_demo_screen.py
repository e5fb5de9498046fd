import io
import os
import re

import pytest

from sidecar.demo.screen import WIDTH, Screen, ScreenLostError, Style

UID = "3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(draw, *, color=False):
    stream = io.StringIO()
    draw(Screen(stream, color=color))
    return stream.getvalue()


def draw_everything(screen):
    screen.paragraph("A title", Style.HEADING)
    screen.step(1, "A step")
    screen.verdict("admitted", "who", "what")
    screen.verdict("refused", "who", "why", "the difference")
    screen.note("a note", Style.ASIDE)
    screen.table(("slot", "n"), [("a", 1)])
    screen.ending("The end")


@pytest.mark.parametrize(
    ("stream", "environ", "colored"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),  # no-color.org: when not an empty string
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_whose_user_wants_it(stream, environ, colored):
    Screen.on(stream, environ).paragraph("A title", Style.HEADING)
    assert ("\x1b" in stream.getvalue()) is colored


def test_colour_changes_no_character():
    assert re.sub(r"\x1b\[\d*m", "", shown(draw_everything, color=True)) == shown(draw_everything)


def test_every_colour_ends_on_its_line():
    for line in shown(draw_everything, color=True).splitlines():
        assert len(re.findall(r"\x1b\[[1-9]\d*m", line)) == line.count("\x1b[0m")


@pytest.mark.parametrize("draw", [Screen.paragraph, Screen.note, lambda screen, text: screen.step(1, text)])
def test_long_text_is_wrapped(draw):
    text = "word " * 60
    lines = shown(lambda screen: draw(screen, text)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines).split().count("word") == 60


def test_verdicts_stand_in_columns_and_the_difference_below():
    text = shown(
        lambda screen: (
            screen.verdict("admitted", "127.0.0.2 as demo/replica-a/0, generation 1, short", "shard 0"),
            screen.verdict("refused", "127.0.0.3", "identity_mismatch", "expected 0"),
        )
    )
    first, second, third = text.splitlines()
    assert first.index("shard 0") == second.index("identity_mismatch")
    assert first.index("127.") == second.index("127.") == third.index("expected 0")


def test_pods_uids_are_cut_in_verdicts_to_what_tells_them_apart():
    text = shown(lambda screen: screen.verdict("refused", f"as {UID}", "reason", f"expected {UID}, this is {UID}"))
    assert text.split() == ["refused", "as", "3f0c9a52", "reason", "expected", "3f0c9a52,", "this", "is", "3f0c9a52"]


def test_a_table_is_as_wide_as_its_cells_with_numbers_to_the_right():
    text = shown(lambda screen: screen.table(("slot", "count", "why"), [("a/0", 5, "x"), ("a/1-long", 12, "")]))
    assert text.splitlines() == [
        "   slot      count  why",
        "   a/0           5  x",
        "   a/1-long     12",
    ]


def test_a_command_can_be_pasted():
    text = shown(lambda screen: screen.command("echo", "one", "two"))
    with os.popen(text) as output:
        assert output.read() == "one two\n"


def test_each_line_is_written_at_once(tmp_path):
    with (tmp_path / "out").open("w") as stream:
        Screen(stream, color=False).paragraph("now")
        assert (tmp_path / "out").read_text() == "now\n"


def test_what_nobody_reads_any_more_goes_nowhere():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        os.close(reading)
        screen = Screen(stream, color=False)
        with pytest.raises(ScreenLostError) as lost:
            screen.paragraph("text")
        assert str(lost.value) == ""
        screen.abandon()
        screen.paragraph("more")  # and closing raises nothing


def test_what_can_not_be_written_is_said_with_its_reason():
    with open("/dev/full", "w") as stream:
        screen = Screen(stream, color=False)
        with pytest.raises(ScreenLostError, match="standard output can't be written: No space left on device"):
            screen.paragraph("text")
        screen.abandon()
