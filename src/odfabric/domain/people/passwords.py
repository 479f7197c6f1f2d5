"""Which passwords may be chosen, and the one form in which a password is hashed.

Owns the rules of NIST SP 800-63B-4, section 3.1.1.2: a least length, no rules of composition, every sign of every script counts as one,
and nothing that stands at the top of every list of guesses: the name or address of the account, the name of this software, one piece
repeated, a row of the keyboard. Its least length for a password that is the only factor is 15. Not here: hashing (`ports.people.passwords`),
how often somebody may guess (`ports.people.rate_limits`).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import NoReturn

from odfabric.errors import InvalidRequest, LimitExceeded, Place

SOFTWARE = "odfabric"
BEYOND_WORDS_MIN = 8
"""Characters that a password must have beside the names in it."""

_WORD_CHARACTERS_MIN = 3
_ROWS = (
    "1234567890qwertyuiopasdfghjklzxcvbnm",
    "0123456789",
    "abcdefghijklmnopqrstuvwxyz",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
)
_INSTEAD = "take several unrelated words, or let a password manager choose"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordRules:
    """Limits of a node: characters of a new password, bytes of any password in UTF-8."""

    characters_min: int = 15
    bytes_max: int = 1024


def normalised(password: str, *, bytes_max: int) -> str:
    """The form of a password that is hashed and compared: Unicode's NFKC.

    Applied to its own result it changes nothing.

    Raises LimitExceeded with `password_bytes_max`, InvalidRequest for what is no text.
    """
    # Looked at before and after: normal forms may be longer or shorter, and making one of a long text takes long.
    _check_bytes(password, bytes_max)
    text = unicodedata.normalize("NFKC", password)
    _check_bytes(text, bytes_max)
    return text


def check_new_password(password: str, rules: PasswordRules, *, name: str, email: str | None = None) -> None:
    """Whether a password may be chosen for the account of this name.

    Raises InvalidRequest saying what to choose, LimitExceeded.
    """
    text = normalised(password, bytes_max=rules.bytes_max)
    if len(text) < rules.characters_min:
        _refuse(
            f"the password has {len(text)} characters, it needs {rules.characters_min}",
            hint=f"{_INSTEAD}; any characters, spaces too",
        )
    categories = {unicodedata.category(sign) for sign in text}
    if "Cc" in categories:
        _refuse("the password has a control character such as a tab or line break", hint="leave it out")
    if "Cn" in categories:
        # Its normal form may be another one with the next version of Unicode, and then nobody could sign in with it.
        _refuse("the password has a character that Unicode does not know yet", hint="choose another one for it")
    folded = text.casefold()
    if _is_mostly(folded, _known_words(name, email), rest_min=min(BEYOND_WORDS_MIN, rules.characters_min)):
        _refuse(
            "the password is little more than the name or address of the account, or of this software", hint=_INSTEAD
        )
    if _is_repeated(folded):
        _refuse("the password is one piece over and over", hint=_INSTEAD)
    if _is_row(folded):
        _refuse("the password is a row of the keyboard, the alphabet or digits", hint=_INSTEAD)


def _check_bytes(text: str, bytes_max: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        _refuse("the password is not text: it has half of a surrogate pair", hint=_INSTEAD)
    if size > bytes_max:
        message = f"the password has more than {bytes_max} bytes"
        place = Place(field="password")
        raise LimitExceeded(message, limit="password_bytes_max", maximum=bytes_max, place=place)


def _known_words(name: str, email: str | None) -> list[str]:
    """Longest first, so that an address is taken out as a whole."""
    local, _, host = (email or "").partition("@")
    given = (name, email or "", local, host, SOFTWARE)
    words = {unicodedata.normalize("NFKC", word).casefold() for word in given}
    return sorted((word for word in words if len(word) >= _WORD_CHARACTERS_MIN), key=lambda word: (-len(word), word))


def _is_mostly(text: str, words: list[str], *, rest_min: int) -> bool:
    """Whether it has some of the words and fewer than `rest_min` other characters.

    Punctuation does not count as other characters.
    """
    if not any(word in text for word in words):
        return False
    for word in words:
        text = text.replace(word, " ")
    return sum(unicodedata.category(sign)[0] not in "PZ" for sign in text) < rest_min


def _is_repeated(text: str) -> bool:
    """Whether it is a shorter piece at least twice, the last time perhaps cut off."""
    return any(text[period:] == text[:-period] for period in range(1, len(text) // 2 + 1))


def _is_row(text: str) -> bool:
    """Whether it follows one row of keys, either way, perhaps several times around."""
    turns = len(text) // min(map(len, _ROWS)) + 2
    return any(text in row * turns or text in row[::-1] * turns for row in _ROWS)


def _refuse(message: str, *, hint: str) -> NoReturn:
    # The password itself is never repeated.
    raise InvalidRequest(message, place=Place(field="password"), hint=hint)
