"""Tell randomly generated text, such as a key, a token or a passphrase, from text that a person wrote."""

from __future__ import annotations

import math
import re
from collections import Counter

_WORDS = re.compile(r"[A-Za-z]?[a-z]{3,}|[A-Z]{4,}")
_RUNS = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_DIGITS = re.compile(r"[0-9]")
_WORD = re.compile(r"[a-z]+")
_COMMON = frozenset(
    """
    a about access account admin after again all always an and another any api app application apps are args as
    at attr auth authentication authorization aws azure back base basic be bearer been before body branch build
    but by bytes cache call can cannot cert change check class client cloud code com config connection container
    context cookie could create credential credentials current custom data database default delete dev did
    digest do docker does domain don done each email empty encoded encrypted end endpoint ends enter entry env
    environment error errors every example expected expired export external fail failed false field file files
    first for form format found from function gateway generate get git github given go group had has hash have
    header headers help here hidden hide high home host how http https id if import in incorrect index info init
    input insert internal into invalid io is issued it item its job just key keys kind kube label last left
    length less like line list load local log login long machine main manager master max may message method min
    missing mode model module more most must my name names need needed never new next no node none not null
    object of off old on one only op open option optional or org other our out output own page param parameter
    params parser pass passphrase passwd password passwords path please policy port prefix prod production
    profile prop props provider proxy public put pwd query read redis ref region remote request required reset
    resource response role root route rule run same save schema scope secret secrets self send server service
    session set setting settings shall should show sign size so source space ssh stage start state status
    storage store string strong such sync system table tag target temp template test testing than that the their
    them then there this time title to token tokens too true two type undefined until update upper url use used
    user username users using utils valid value values vault vars verify version via view wait was we web when
    where which will with without word words work wrong www you your
    """.split()
)
"""Words of prose about passwords, and of names of settings."""
_PAIRS = frozenset(
    letters[0] + second
    for letters in (
        "abcdgilmnprst bael caehiklotu daei eacdeflmnprstvx fefio ger haeio iacdefglmnorstvz ke laeilosuy maeiop "
        "nacdegiost ocdlmnoprstuvw paeiloprt qu radeimost sacehiopstu taehiorstuy uclnprst vaei ze"
    ).split()
    for second in letters[1:]
)
"""The pairs of letters that words of code and English consist of: four in five of theirs, one in five of all pairs."""
_CAMEL_HUMPS = re.compile(r"[A-Z]+[a-z]*|[a-z]+")


def entropy(text: str) -> float:
    """The Shannon entropy of the text's characters, in bits per character; 0 for an empty text."""
    return -sum(times / len(text) * math.log2(times / len(text)) for times in Counter(text).values()) if text else 0.0


def looks_random(text: str) -> bool:
    """Whether a text was probably generated: digits and letters alternate, or capitals follow no rule.

    False for identifiers, paths, words with numbers, plain numbers, and anything of fewer than eight ASCII letters and
    digits.
    """
    if text.isalpha() and (text.islower() or text.isupper()):
        return False
    plain = _OTHER.sub("", text)
    if len(plain) < 8:
        return False
    runs = _RUNS.findall(plain)
    turns = (len(runs) - 1) / (len(plain) - 1)
    worded = sum(len(word) for word in _WORDS.findall(text) if _is_worded(word.lower())) / len(plain)
    if _DIGITS.search(plain) and not plain.isdigit():
        return turns >= 0.2 and worded < 0.6
    return not plain.islower() and not plain.isupper() and turns >= 0.35 and worded < 0.4


def _is_worded(run: str) -> bool:
    """Whether a run of small letters may be a word, or a part of one: half of its pairs of letters are usual."""
    return sum(map(_PAIRS.__contains__, map(str.__add__, run, run[1:]))) * 2 >= len(run) - 1


def looks_generated(value: str) -> bool:
    """A weaker test than `looks_random`: eight characters that mix small letters, capitals and digits are enough."""
    mixed = any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))
    return looks_random(value) or (mixed and len(value) >= 8)


def has_many_humps(value: str) -> bool:
    """Whether letters change case more often than in an identifier such as `parseNextLine`."""
    humps = _CAMEL_HUMPS.findall(value)
    return len(value) >= 10 and value.isalpha() and len(humps) >= 4 and len(value) / len(humps) <= 3.5


def is_passphrase(text: str) -> bool:
    """Whether these are three words or more, drawn at random: at most one in four is a word of prose or of settings."""
    words = _WORD.findall(text)
    return len(words) >= 3 and sum(word in _COMMON for word in words) * 4 <= len(words)
