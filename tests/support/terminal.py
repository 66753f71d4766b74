"""A terminal that understands the few sequences that programs redrawing some lines use, and refuses all others."""

import re

_TOKEN = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Terminal:
    """Lines of text with a cursor; no scrolling, no wrapping."""

    def __init__(self):
        self.lines, self.row, self.column = [""], 0, 0
        self.cursor_shown, self.screens = True, []

    def feed(self, text):
        """Take what a program wrote; after each "erase below" the screen is kept in ``screens``."""
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            assert token, f"unknown sequence: {text[at : at + 20]!r}"
            at = token.end()
            argument, letter, control, plain = token.groups()
            if letter:
                self._sequence(argument, letter)
            elif control == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif control == "\r":
                self.column = 0
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + plain + line[self.column + len(plain) :]
                self.column += len(plain)

    def _sequence(self, argument, letter):
        if letter == "F":
            assert int(argument) <= self.row, "moved up beyond what was drawn"
            self.row, self.column = self.row - int(argument), 0
        elif letter == "K" and not argument:
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif letter == "J" and not argument:
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
            self.screens.append(list(self.lines))
        elif letter == "J" and argument == "2":
            self.lines = [""] * len(self.lines)
        elif letter == "H" and not argument:
            self.row = self.column = 0
        elif argument in ("?25", "?7") and letter in "hl":
            if argument == "?25":
                self.cursor_shown = letter == "h"
        else:
            assert letter == "m", f"unknown sequence: {argument}{letter}"
