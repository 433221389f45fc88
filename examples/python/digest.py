"""Fencepost's digest contract (docs/digest.md) in Python, with nothing but the standard library.

    python3 examples/python/digest.py docs/digest-vectors.json    checks every vector
"""
import base64
import hashlib
import json
import sys

PREFIX = b"fencepost:json:v1\n"
CONTENT_BYTES_MAX = 1024 * 1024
LEVELS_MAX = 100
EXPONENT_DIGITS_MAX = 18
SPACE = b" \t\n\r"
DIGITS = b"0123456789"
ESCAPES = {ord(a): b for a, b in zip('"\\/bfnrt', '"\\/\b\f\n\r\t')}


class Refused(ValueError):
    """A content that has no digest; `at` is the byte offset where that was seen, if there is one."""

    def __init__(self, why: str, at: "int | None" = None):
        super().__init__(why if at is None else f"{why} at byte {at}")
        self.at = at


class Number:
    """An exact decimal: digits times ten to the exponent."""

    def __init__(self, negative: bool, digits: bytes, exponent: int):
        digits = digits.lstrip(b"0")
        short = digits.rstrip(b"0")
        self.exponent = exponent + len(digits) - len(short) if short else 0
        self.negative = negative and bool(short)
        self.digits = short or b"0"


class Reader:
    """Reads a JSON text strictly. Objects become dicts, arrays lists, strings bytes, numbers `Number`s."""

    def __init__(self, text: bytes):
        self.text, self.at, self.levels = text, 0, 0

    def whole(self):
        try:
            self.text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("invalid UTF-8", error.start) from None
        if self.text.startswith(b"\xef\xbb\xbf"):
            raise Refused("a byte order mark", 0)
        value = self.value()
        self.skip_space()
        if self.at < len(self.text):
            raise Refused("text after the value", self.at)
        return value

    def peek(self) -> int:
        return self.text[self.at] if self.at < len(self.text) else -1

    def skip_space(self):
        while self.peek() != -1 and self.peek() in SPACE:
            self.at += 1

    def expect(self, byte: bytes):
        if self.peek() != byte[0]:
            raise Refused(f"{byte!r} is expected", self.at)
        self.at += 1

    def closes(self, bracket: bytes) -> bool:
        self.skip_space()
        if self.peek() != bracket[0]:
            return False
        self.at += 1
        return True

    def value(self):
        self.skip_space()
        first = self.peek()
        if first != -1 and first in b"{[":
            if self.levels == LEVELS_MAX:
                raise Refused("too many levels", self.at)
            self.levels += 1
            self.at += 1
            value = self.object() if first == ord("{") else self.array()
            self.levels -= 1
            return value
        if first == ord('"'):
            return self.string()
        if first == ord("-") or (first != -1 and first in DIGITS):
            return self.number()
        for word, value in ((b"null", None), (b"true", True), (b"false", False)):
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        raise Refused("a value is expected", self.at)

    def array(self) -> list:
        elements = []
        if self.closes(b"]"):
            return elements
        while True:
            elements.append(self.value())
            if self.closes(b"]"):
                return elements
            self.expect(b",")

    def object(self) -> dict:
        members, repeated = {}, []
        if self.closes(b"}"):
            return members
        while True:
            self.skip_space()
            at = self.at
            if self.peek() != ord('"'):
                raise Refused("a member name is expected", at)
            name = self.string()
            if name in members:
                repeated.append(at)
            self.skip_space()
            self.expect(b":")
            members[name] = self.value()
            if self.closes(b"}"):
                break
            self.expect(b",")
        if repeated:
            raise Refused("a duplicate member name", repeated[0])
        return members

    def string(self) -> bytes:
        self.at += 1
        out = bytearray()
        while True:
            byte = self.peek()
            if byte == -1:
                raise Refused("the text ends inside a string", self.at)
            if byte < 0x20:
                raise Refused("a control character in a string", self.at)
            self.at += 1
            if byte == ord('"'):
                return bytes(out)
            if byte == ord("\\"):
                out += self.escape().encode("utf-8")
            else:
                out.append(byte)

    def escape(self) -> str:
        byte = self.peek()
        if byte == -1:
            raise Refused("the text ends inside a string", self.at)
        self.at += 1
        if byte in ESCAPES:
            return ESCAPES[byte]
        if byte != ord("u"):
            raise Refused("no escape of JSON", self.at)
        unit = self.four()
        if 0xD800 <= unit < 0xDC00 and self.text.startswith(b"\\u", self.at):
            self.at += 2
            low = self.four()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        if 0xD800 <= unit < 0xE000:
            raise Refused("a lone surrogate", self.at)
        return chr(unit)

    def four(self) -> int:
        digits = self.text[self.at : self.at + 4]
        if len(digits) < 4 or any(byte not in b"0123456789abcdefABCDEF" for byte in digits):
            raise Refused("no escape of JSON", self.at)
        self.at += 4
        return int(digits, 16)

    def run(self) -> bytes:
        start = self.at
        while self.peek() != -1 and self.peek() in DIGITS:
            self.at += 1
        if self.at == start:
            raise Refused("a digit is expected", start)
        return self.text[start : self.at]

    def number(self) -> Number:
        negative = self.peek() == ord("-")
        self.at += negative
        start = self.at
        whole = self.run()
        if len(whole) > 1 and whole.startswith(b"0"):
            raise Refused("a leading zero", start)
        fraction, exponent = b"", 0
        if self.peek() == ord("."):
            self.at += 1
            fraction = self.run()
        if self.peek() in (ord("e"), ord("E")):
            self.at += 1
            below_zero = self.peek() == ord("-")
            if self.peek() in (ord("+"), ord("-")):
                self.at += 1
            start = self.at
            digits = self.run().lstrip(b"0")
            if len(digits) > EXPONENT_DIGITS_MAX:
                raise Refused("too long an exponent", start)
            exponent = int(digits or b"0") * (-1 if below_zero else 1)
        return Number(negative, whole + fraction, exponent - len(fraction))


def string_form(text: bytes) -> bytes:
    return b'"%d:%s' % (len(text), text)


def form(value) -> bytes:
    """The canonical form of a value."""
    if value is None:
        return b"n"
    if value is True or value is False:
        return b"t" if value else b"f"
    if isinstance(value, Number):
        return b"#%s%se%d;" % (b"-" if value.negative else b"", value.digits, value.exponent)
    if isinstance(value, bytes):
        return string_form(value)
    if isinstance(value, list):
        return b"[" + b"".join(map(form, value)) + b"]"
    return b"{" + b"".join(string_form(name) + form(value[name]) for name in sorted(value)) + b"}"


def steps(pointer: str) -> "list[bytes]":
    return [step.replace("~1", "/").replace("~0", "~").encode() for step in pointer.split("/")[1:]]


def key_in(container, step: bytes):
    """What a step names in an object or an array; None if nothing."""
    if isinstance(container, dict):
        return step if step in container else None
    if isinstance(container, list) and step and all(byte in DIGITS for byte in step):
        if len(step) == 1 or not step.startswith(b"0"):
            return int(step) if int(step) < len(container) else None
    return None


def checked(pointers: "list[str]") -> "list[str]":
    if not 1 <= len(pointers) <= 64:
        raise Refused("1 to 64 pointers")
    for pointer in pointers:
        escapes = pointer.split("~")[1:]
        if not pointer.startswith("/") or len(pointer.encode()) > 256:
            raise Refused("no pointer")
        if any(rest[:1] not in ("0", "1") for rest in escapes):
            raise Refused("a ~ that means nothing")
        if pointers.count(pointer) > 1 or any(pointer.startswith(outer + "/") for outer in pointers):
            raise Refused("a pointer that another one covers")
    return sorted(pointers, key=lambda pointer: pointer.encode())


def form_of(text: bytes, include=None, exclude=None) -> bytes:
    """The bytes behind the prefix, of a JSON content."""
    if len(text) > CONTENT_BYTES_MAX:
        raise Refused("too large")
    value = Reader(text).whole()
    if include is not None:
        out = b"&"
        for pointer in checked(include):
            part = value
            for step in steps(pointer):
                key = key_in(part, step)
                if key is None:
                    raise Refused(f"nothing at {pointer}")
                part = part[key]
            out += string_form(pointer.encode()) + form(part)
        return out + b";"
    # Elements are only marked at first, so that the numbers of the others stay.
    gone = object()
    for pointer in checked(exclude) if exclude is not None else []:
        *way, last = steps(pointer)
        part = value
        for step in way:
            key = key_in(part, step)
            part = None if key is None else part[key]
        key = key_in(part, last)
        if key is not None:
            part[key] = gone
    return form(without(value, gone))


def without(value, gone):
    if isinstance(value, list):
        return [without(element, gone) for element in value if element is not gone]
    if isinstance(value, dict):
        return {name: without(member, gone) for name, member in value.items() if member is not gone}
    return value


def digest(text: bytes, include=None, exclude=None) -> bytes:
    """The digest of a JSON content by scheme 1."""
    return hashlib.sha256(PREFIX + form_of(text, include, exclude)).digest()


def check(vector: dict) -> "str | None":
    """What is wrong with a vector; None if nothing is."""
    content = base64.b64decode(vector["base64"]) if "base64" in vector else vector["text"].encode()
    content *= vector.get("repeat", 1)
    if vector["scheme"] == "raw":
        found = hashlib.sha256(content).hexdigest()
        return None if found == vector["digest"] else f"digest {found}"
    try:
        canonical = form_of(content, vector.get("include"), vector.get("exclude"))
    except Refused as refused:
        if "refused" not in vector:
            return f"refused: {refused}"
        # Where an escape goes wrong is told by each reader in its own way: somewhere within the string.
        if "at" in vector["refused"] and not vector["refused"].get("within") and refused.at != vector["refused"]["at"]:
            return f"refused at {refused.at}"
        return None
    if "refused" in vector:
        return "is not refused"
    if canonical.decode() != vector["form"]:
        return f"form {canonical!r}"
    found = hashlib.sha256(PREFIX + canonical).hexdigest()
    return None if found == vector["digest"] else f"digest {found}"


def main(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["vectors"]
    wrong = [(vector["name"], found) for vector in vectors for found in [check(vector)] if found]
    for name, found in wrong:
        print(f"{name}: {found}")
    print(f"{len(vectors)} vectors, {len(wrong)} wrong")
    return 1 if wrong or not vectors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
