"""Readable names of kernels that a profiler left mangled: `_ZN7ck_tile6kentryILi1E...`.

The grammar is that of the Itanium C++ ABI (itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling),
as far as kernel names use it.  Profilers cut long names, so a truncated name is read up to the cut
and ends in an ellipsis.  Function parameters are left out: the name and its template arguments
identify a kernel.  Work and length are bounded, however much a name repeats.
"""

from __future__ import annotations

from functools import lru_cache

_MOST_STEPS = 4000
_MOST_DEPTH = 64
_MOST_CHARS = 2000
_CUT = "…"

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char",
    "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {
    "n": "nullptr_t", "i": "char32_t", "s": "char16_t", "u": "char8_t", "a": "auto",
    "c": "decltype(auto)", "h": "half", "d": "decimal64", "e": "decimal128", "f": "decimal32",
}  # fmt: skip
_STANDARD = {
    "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
_QUALIFIED = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": ""}


@lru_cache(maxsize=8192)
def demangled(name: str) -> str:
    """The readable form of a mangled name; any other name as it is."""
    if not name.startswith("_Z"):
        return name
    parser = _Parser(name.removesuffix(".kd")[2:])
    read = parser.name()
    return read if parser.identifiers else name


class _Parser:
    """A parser that walks over one mangled name from its start; `broken` once it cannot go on."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._steps = self._depth = 0
        self._seen: list[str] = []
        self._arguments: list[str] = []
        self.broken, self.identifiers = False, 0

    def name(self) -> str:
        """A name with its template arguments, without the parameters behind it."""
        following = self._peek()
        if following == "N":
            return self._nested()
        if following == "Z":
            return self._local()
        if following == "S" and self._peek(1) != "t":
            read = self._substitution()
        else:
            standard = self._take("St")
            read = ("std::" if standard else "") + self._unqualified()
            self._remember(read)
        if self._peek() == "I":
            read += self._template()
            self._remember(read)
        return read

    def _nested(self) -> str:
        """N ... E: nested scopes, from the outermost to the innermost."""
        self._at += 1
        while self._peek() and self._peek() in "rVKRO":
            self._at += 1
        scope = ""
        while not self._take("E") and not self._stopped():
            following = self._peek()
            if following == "I":
                scope += self._template()
            elif following == "S" and self._peek(1) != "t":
                scope = self._substitution()
                continue
            elif following == "T":
                scope = self._parameter()
            else:
                part = "std" if self._take("St") else self._part(scope)
                scope = f"{scope}::{part}" if scope else part
            self._remember(scope)
        return scope

    def _local(self) -> str:
        """Z <function> E <entity>."""
        self._at += 1
        function = self.name()
        while not self._take("E") and not self._stopped():
            self._type()
        return function if self.broken else f"{function}::{self.name()}"

    def _part(self, scope: str) -> str:
        """One component of a nested name."""
        if self._peek() in ("C", "D") and self._peek(1).isdigit():
            destructor = self._peek() == "D"
            self._at += 2
            return ("~" if destructor else "") + scope.rpartition("::")[2].partition("<")[0]
        return self._unqualified()

    def _unqualified(self) -> str:
        """An identifier, a lambda or an unnamed type."""
        self._take("L")
        if self._peek().isdigit():
            return self._identifier()
        if self._take("Ul"):
            while not self._take("E") and not self._stopped():
                self._type()
            self._number_to("_")
            return "{lambda}"
        if self._take("Ut"):
            self._number_to("_")
            return "{unnamed}"
        return self._break()

    def _identifier(self) -> str:
        """<length> <characters>; only the characters before the cut where the name was
        truncated.
        """
        length = self._digits()
        read = self._text[self._at : self._at + length]
        self._at += length
        self.identifiers += 1
        if len(read) < length:
            return (read.rstrip(".") or "") + self._break()
        return "(anonymous namespace)" if read.startswith("_GLOBAL__N") else read

    def _template(self) -> str:
        """I ... E: arguments in angle brackets."""
        self._arguments = []
        arguments = self._list()
        self._arguments = arguments
        return "<" + self._joined(arguments) + ">"

    def _list(self) -> list[str]:
        """Arguments up to their E, packs flattened."""
        self._at += 1
        arguments: list[str] = []
        while not self._take("E") and not self._stopped():
            if self._peek() == "J":
                arguments += self._list()
            elif self._take("Tn"):
                self._type()  # the type of a constant; the constant follows
            elif self._peek() == "L":
                arguments.append(self._literal())
            elif self._peek() == "X":
                arguments.append(self._expression())
            else:
                arguments.append(self._type())
        return arguments

    def _expression(self) -> str:
        """X ... E: a constant, or the address of one."""
        self._at += 1
        address = self._take("ad")
        if self._peek() != "L":
            return self._break()
        read = ("&" if address else "") + self._literal()
        return read if self._take("E") else self._break()

    def _literal(self) -> str:
        """A literal: L <type> <value> E."""
        self._at += 1
        if self._take("_Z"):
            outer = self._arguments
            read = self.name()
            while not self._take("E") and not self._stopped():
                self._type()
            self._arguments = outer
            return read
        kind = self._type()
        end = self._text.find("E", self._at)
        if end < 0 or self.broken:
            return self._break()
        value = self._text[self._at : end].replace("n", "-", 1)[:40]
        self._at = end + 1
        if kind == "bool":
            return {"0": "false", "1": "true"}.get(value, value)
        return value if kind in _BUILTIN.values() else f"({kind}){value}"

    def _type(self) -> str:
        """A type; qualifiers behind what they qualify."""
        self._depth += 1
        try:
            return self._any_type()
        finally:
            self._depth -= 1

    def _any_type(self) -> str:
        following = self._peek()
        if self._stopped() or not following:
            return self._break()
        if following in _BUILTIN:
            self._at += 1
            return _BUILTIN[following]
        if following in _QUALIFIED:
            self._at += 1
            read = self._type() + _QUALIFIED[following]
        elif following == "D":
            return self._extended()
        elif following == "T":
            read = self._parameter()
        elif following == "F":
            result, *parameters = self._list() or [""]
            read = f"{result} ({self._joined(parameters)})"
        elif following == "A":
            self._at += 1
            size = self._number_to("_")
            read = f"{self._type()} [{size}]"
        elif following in "NZS" or following.isdigit():
            return self.name()
        else:
            return self._break()
        self._remember(read)
        return read

    def _extended(self) -> str:
        """D...: types with two-letter codes."""
        self._at += 1
        if self._take("F"):
            bits = self._digits()
            brain = self._take("b")
            if not brain:
                self._number_to("_")
            return f"__bf{bits}" if brain else f"_Float{bits}"
        if self._take("p"):
            return self._type() + "..."
        if self._take("v"):
            size = self._number_to("_")
            read = f"{self._type()} vector[{size}]"
            self._remember(read)
            return read
        letter = self._peek()
        self._at += 1
        return _BUILTIN_D.get(letter) or self._break()

    def _parameter(self) -> str:
        """T_ or T<n>_: a template parameter by the arguments read so far."""
        self._at += 1
        at = self._sequence()
        return self._arguments[at] if at < len(self._arguments) else f"T{at}"

    def _substitution(self) -> str:
        """S_ or S<n>_: refers to an earlier component; Sa, Ss ...: names of the standard
        library.
        """
        self._at += 1
        if self._peek() in _STANDARD:
            self._at += 1
            return _STANDARD[self._text[self._at - 1]]
        at = self._sequence()
        return self._seen[at] if at < len(self._seen) else self._break()

    def _sequence(self) -> int:
        """Index of a substitution: 0 for "_", n + 1 for "<n in base 36>_"."""
        digits = self._number_to("_")
        try:
            return int(digits[:8], 36) + 1 if digits else 0
        except ValueError:
            self._break()
            return _MOST_STEPS

    def _digits(self) -> int:
        start = self._at
        while self._peek().isdecimal() and self._at - start < 6:
            self._at += 1
        return int(self._text[start : self._at] or 0)

    def _number_to(self, end: str) -> str:
        """The text up to an end mark, which is consumed."""
        at = self._text.find(end, self._at)
        if at < 0:
            self._break()
            return ""
        read, self._at = self._text[self._at : at], at + len(end)
        return read

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _stopped(self) -> bool:
        """Whether to stop reading: end of the name, damage, or a bound."""
        self._steps += 1
        if not self.broken and (
            self._at >= len(self._text) or self._steps > _MOST_STEPS or self._depth > _MOST_DEPTH
        ):
            self.broken = True
        return self.broken

    def _break(self) -> str:
        self.broken = True
        return _CUT

    def _remember(self, read: str) -> None:
        self._seen.append(read[:_MOST_CHARS])

    @staticmethod
    def _joined(parts: list[str]) -> str:
        """Components joined with commas, with one ellipsis at the end if any was cut."""
        whole = ", ".join(part[:_MOST_CHARS] for part in parts[:200])
        return whole[:_MOST_CHARS]
